/** A process as the container of a pod has it: its capabilities, what it may write, and the system calls it may make. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** What of the node is where in the container. */
export interface Mount {
  readonly from: string
  readonly to: string
}

/** As the manifest of a pod says it. */
export interface ContainerLimits {
  /** Those that are added, all others being dropped. */
  readonly capabilities: readonly string[]
  /** What is mounted to be written; all else is read-only, sysctls too. */
  readonly writable: readonly Mount[]
  /** Without the system calls that RuntimeDefault refuses to who has no more than BPF, NET_ADMIN, NET_RAW and PERFMON. */
  readonly filtered: boolean
}

/** The mounts of a container: in a mount namespace of its own everything that is not to be written is made read-only. */
const SCRIPT = `
set -e
capabilities=$1 filter=$2 writable=$3
shift 3
kept_paths="/dev /proc"
for pair in $writable; do
  from=\${pair%%:*} to=\${pair#*:}
  [ -e "$to" ] || mkdir -p "$to"
  mount --bind "$from" "$to"
  kept_paths="$kept_paths $to"
done
while read -r _ _ _ _ path _; do
  for kept in $kept_paths; do
    case $path in "$kept" | "$kept"/*) continue 2 ;; esac
  done
  # What is gone since was another's.
  mount -o remount,bind,ro "$path" || [ ! -e "$path" ]
done < /proc/self/mountinfo
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
exec setpriv --bounding-set="$capabilities" --inh-caps=-all --no-new-privs $filter "$@"
`

/**
 * Compiles the filter of system calls into a folder. Resolves with what gives the words to begin a command with; the command
 * must be one for a process that is root.
 */
export async function prepareContainers(
  folder: string,
): Promise<(limits: ContainerLimits) => readonly [string, ...string[]]> {
  const filter = join(folder, 'runtime-default')
  const source = join(import.meta.dirname, 'runtime-default.c')
  await promisify(execFile)('clang', ['-O2', '-Wall', '-Werror', source, '-o', filter])
  return ({ capabilities, writable, filtered }) => {
    const set = ['-all', ...capabilities.map((name) => `+${name.toLowerCase()}`)].join()
    const mounts = writable.map(({ from, to }) => `${from}:${to}`).join(' ')
    const words = [set, filtered ? filter : '', mounts]
    return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', SCRIPT, 'sh', ...words]
  }
}

/** Where a new mount namespace becomes that of the pod: the node's files elsewhere, and what is the pod's own in their place. */
const DEBUGGING_SCRIPT = `
set -e
host=$1
shift
mkdir -p "$host"
mount --rbind / "$host"
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
exec "$@"
`

/**
 * The words to begin a command with, as in the pod that `kubectl debug node/NODE --profile=sysadmin` makes: it has every
 * privilege, and the files of the node under `host` alone, which is made.
 */
export function inDebuggingPod(host: string): readonly [string, ...string[]] {
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', DEBUGGING_SCRIPT, 'sh', host]
}
