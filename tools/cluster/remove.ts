/**
 * Takes a cluster away: its processes, namespaces, cgroups and pins. Synchronous, so that it also
 * works in a signal handler and at the exit of the process; does not care how much of it exists.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** What of a cluster is on the machine. */
export interface Traces {
  readonly namespaces: readonly string[]
  /** Folders, each removed with all below it. */
  readonly cgroups: readonly string[]
  readonly pins: readonly string[]
}

/** Killed processes leave their cgroup when the kernel has taken them apart. */
const CGROUP_ATTEMPTS = 200
const CGROUP_PAUSE_MS = 10

/** Throws, after having removed everything else, when something stays. */
export function removeTraces(traces: Traces): void {
  for (const cgroup of traces.cgroups) killCgroup(cgroup)
  // Pins first: a link on a device is gone with the device, but a cgroup's is not while it is pinned.
  for (const pin of traces.pins) rmSync(pin, { recursive: true, force: true })
  const names = traces.namespaces.filter((name) => existsSync(`/run/netns/${name}`))
  const input = names.map((name) => `netns delete ${name}\n`).join('')
  if (names.length > 0) spawnSync('ip', ['-force', '-batch', '-'], { input })
  for (const cgroup of traces.cgroups) removeCgroup(cgroup)
  const left = [
    ...names.filter((name) => existsSync(`/run/netns/${name}`)),
    ...[...traces.cgroups, ...traces.pins].filter((path) => existsSync(path)),
  ]
  if (left.length > 0) throw new Error(`could not be removed: ${left.join(', ')}`)
}

/** Tests and demo put their own process id into the names of what they make: `slt<pid>`, `sld<pid>`. */
const OWNED_NAME = /^sl[a-z](\d+)/

/** The process that made what has this name. */
export function ownerOf(name: string): number | undefined {
  const owner = OWNED_NAME.exec(name)?.[1]
  return owner === undefined ? undefined : Number(owner)
}

/** Is there such a process? One that has ended and whose parent has not heard of it yet is none. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z'
  } catch {
    return false
  }
}

/** What those have left that were killed before they could clean up. */
export function staleTraces(places: { readonly cgroup2: string; readonly bpffs: string }): Traces {
  const isStale = (name: string): boolean => {
    const owner = ownerOf(name)
    return owner !== undefined && !isAlive(owner)
  }
  const staleIn = (folder: string): string[] =>
    existsSync(folder) ? readdirSync(folder).filter(isStale) : []
  return {
    namespaces: staleIn('/run/netns'),
    cgroups: staleIn(places.cgroup2).map((name) => join(places.cgroup2, name)),
    pins: staleIn(places.bpffs).map((name) => join(places.bpffs, name)),
  }
}

function subgroups(cgroup: string): string[] {
  return readdirSync(cgroup, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(cgroup, entry.name))
}

/** Ends every process in a cgroup and below it. Only programs that a member of the cluster started are there. */
function killCgroup(cgroup: string): void {
  if (!existsSync(cgroup)) return
  const kill = join(cgroup, 'cgroup.kill')
  if (existsSync(kill)) {
    writeFileSync(kill, '1')
    return
  }
  // Kernels before 5.14.
  for (const group of [cgroup, ...subgroups(cgroup)]) {
    for (const pid of readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)) {
      killQuietly(Number(pid))
    }
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

function removeCgroup(cgroup: string): void {
  if (!existsSync(cgroup)) return
  for (const group of subgroups(cgroup)) removeCgroup(group)
  const pause = new Int32Array(new SharedArrayBuffer(4))
  for (let attempt = 0; attempt < CGROUP_ATTEMPTS; attempt += 1) {
    try {
      rmdirSync(cgroup)
      return
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EBUSY')) throw error
      Atomics.wait(pause, 0, 0, CGROUP_PAUSE_MS)
    }
  }
}
