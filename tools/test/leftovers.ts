/**
 * What a test run could leave on the machine: network namespaces, devices, pins, cgroups, processes.
 * Looked at before and after; the same set must be there.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findMount } from '../cluster/mounts.ts'
import { isAlive, ownerOf, removeTraces, staleTraces } from '../cluster/remove.ts'

/** Every process a run starts inherits this variable, so that the ones still there afterwards are found. */
export const RUN_VARIABLE = 'SLUICE_TEST_RUN'

const BPFFS = '/sys/fs/bpf'
/** Far more rounds than processes start processes or take to end. */
const END_ROUNDS = 300
const END_PAUSE_MS = 10

/** The things of one moment, one line each. */
export type Inventory = ReadonlySet<string>

/** Everything of the kinds above that exists now. Without root the parts that cannot be read are absent both times. */
export function takeInventory(): Inventory {
  const cgroup2 = existsSync('/proc/self/mountinfo') ? findMount('cgroup2') : undefined
  return new Set([
    ...names('/run/netns').map((name) => `network namespace ${name}`),
    ...names('/sys/class/net').map((name) => `network device ${name}`),
    ...tree(BPFFS).map((path) => `pin ${path}`),
    ...(cgroup2 === undefined ? [] : names(cgroup2)).map((name) => `cgroup ${cgroup2}/${name}`),
  ])
}

/**
 * What is new, except what belongs to a process that is still at work: another run or a demo beside
 * this one is no leftover of ours.
 *
 * @param isOwnerAlive Is there a process of this id?
 */
export function newSince(
  before: Inventory,
  after: Inventory,
  isOwnerAlive: (pid: number) => boolean = isAlive,
): string[] {
  return [...after].filter((thing) => {
    const owner = thing
      .split(/[ /]/)
      .map(ownerOf)
      .find((pid) => pid !== undefined)
    return !before.has(thing) && !(owner !== undefined && isOwnerAlive(owner))
  })
}

/** Processes that carry the mark of this run, except this process itself. */
export function leftProcesses(run: string): string[] {
  return processesOf(run).map(
    (pid) => `process ${pid} (${read(`/proc/${pid}/cmdline`).split('\0').join(' ').trim()})`,
  )
}

/**
 * Ends the tests of this run where they stand, and removes what they had made: theirs is what carries the id of a process
 * that is gone. Synchronous, for a handler of signals.
 */
export function endRun(run: string): void {
  const ended = new Set<number>()
  for (let round = 0; round < END_ROUNDS; round += 1) {
    // Those that were started meanwhile come in the next round.
    const pids = processesOf(run)
    if (pids.length === 0 && ![...ended].some(isAlive)) break
    for (const pid of pids) {
      ended.add(pid)
      end(pid)
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, END_PAUSE_MS)
  }
  const cgroup2 = findMount('cgroup2')
  if (cgroup2 !== undefined) removeTraces(staleTraces({ cgroup2, bpffs: BPFFS }))
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // Ended by itself since.
  }
}

function processesOf(run: string): number[] {
  const mark = `${RUN_VARIABLE}=${run}`
  return names('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => read(`/proc/${pid}/environ`).split('\0').includes(mark))
    .map(Number)
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function tree(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path))
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // Gone between listing and reading, or another user's.
    return ''
  }
}
