/** A process as the container of a pod has it: its capabilities, what it may write, and the system calls it may make. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** As the manifest of a pod says it. */
export interface ContainerLimits {
  /** Those that are added, all others being dropped. */
  readonly capabilities: readonly string[]
  /** What is mounted to be written; all else is read-only, sysctls too. */
  readonly writable: readonly string[]
  /** Without the system calls that RuntimeDefault refuses to who has no more than BPF, NET_ADMIN, NET_RAW and PERFMON. */
  readonly filtered: boolean
}

/** The mounts of a container: in a mount namespace of its own everything that is not to be written is made read-only. */
const SCRIPT = `
set -e
capabilities=$1 filter=$2 writable=$3
shift 3
for path in $writable; do mount --bind "$path" "$path"; done
while read -r _ _ _ _ path _; do
  for kept in $writable /dev /proc; do
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
    const words = [set, filtered ? filter : '', writable.join(' ')]
    return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', SCRIPT, 'sh', ...words]
  }
}
