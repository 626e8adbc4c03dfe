/**
 * What a test run could leave on the machine: network namespaces, devices, pins, cgroups, processes.
 * Looked at before and after; the same set must be there.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findMount } from '../cluster/mounts.ts'

/** Every process a run starts inherits this variable, so that the ones still there afterwards are found. */
export const RUN_VARIABLE = 'SLUICE_TEST_RUN'

/** Tests and demo put their own process id into the names of what they make: `slt<pid>`, `sld<pid>`. */
const OWNED_NAME = /\bsl[a-z](\d+)/

const BPFFS = '/sys/fs/bpf'

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
 * @param isAlive Is there a process of this id?
 */
export function newSince(
  before: Inventory,
  after: Inventory,
  isAlive: (pid: number) => boolean = (pid) => existsSync(`/proc/${pid}`),
): string[] {
  return [...after].filter((thing) => {
    const owner = OWNED_NAME.exec(thing)?.[1]
    return !before.has(thing) && !(owner !== undefined && isAlive(Number(owner)))
  })
}

/** Processes that carry the mark of this run, except this process itself. */
export function leftProcesses(run: string): string[] {
  const mark = `${RUN_VARIABLE}=${run}`
  return names('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => read(`/proc/${pid}/environ`).split('\0').includes(mark))
    .map((pid) => `process ${pid} (${read(`/proc/${pid}/cmdline`).split('\0').join(' ').trim()})`)
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
