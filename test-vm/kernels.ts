/** The matrix: which kernels are booted, and what each of them has to have. Read from `kernels.json`. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where a kernel comes from. */
export interface KernelSource {
  /** Of Debian. Undefined: none has such a kernel, and whoever asks for it is told. */
  readonly suite: string | undefined
  /** A program of this machine (Debian's user-mode-linux), not a kernel that QEMU boots. */
  readonly userMode: boolean
  /** The beginning of the version. */
  readonly release: string
}

/** What `--proxy-mode auto` has to choose: eBPF, by this hook for packets, or iptables. */
const DATAPLANES = ['bpf by tcx', 'bpf by clsact', 'iptables'] as const
export type DataplaneName = (typeof DATAPLANES)[number]

/** What is done in a guest; each is a column of the table. */
export const CHECKS = ['features', 'loads', 'demo', 'conformance', 'links', 'ipvs', 'fallback'] as const
export type Check = (typeof CHECKS)[number]

export interface Kernel extends KernelSource {
  /** What one calls it by. */
  readonly name: string
  /** bpf(2) is taken out: it returns ENOSYS. */
  readonly withoutBpf: boolean
  readonly dataplane: DataplaneName
  /** Where that is iptables: words of the reason that the daemon has to give; empty elsewhere. */
  readonly because: string
  /** Features, by the names that `sluice probe` and the suite have for them; it has none of the others. */
  readonly has: ReadonlySet<string>
  /** What a run of the whole matrix does with it, and what continuous integration does. */
  readonly checks: readonly Check[]
  readonly quickChecks: readonly Check[]
}

/** Every kernel of the matrix. Throws Error for a file that makes no sense, by kernel and field. */
export function readKernels(file = join(import.meta.dirname, 'kernels.json')): Kernel[] {
  return parseKernels(JSON.parse(readFileSync(file, 'utf8')))
}

/** Pure. */
export function parseKernels(value: unknown): Kernel[] {
  const { kernels, features } = record(value, 'the file')
  const groups = record(features, 'features')
  const parsed = list(kernels, 'kernels').map((each, i) =>
    parseKernel(record(each, `kernel ${i + 1}`), groups),
  )
  const twice = parsed.find(({ name }, i) => parsed.findIndex((other) => other.name === name) !== i)
  if (twice !== undefined) throw new Error(`two kernels are called ${twice.name}`)
  return parsed
}

const FIELDS = [
  ...['name', 'suite', 'userMode', 'release', 'withoutBpf', 'dataplane', 'because', 'has', 'checks'],
  'quickChecks',
]

function parseKernel(
  entry: Readonly<Record<string, unknown>>,
  groups: Readonly<Record<string, unknown>>,
): Kernel {
  const name = word(entry['name'], 'a kernel: name')
  const field = (key: string): string => `kernel ${name}: ${key}`
  const unknown = Object.keys(entry).find((key) => !FIELDS.includes(key))
  if (unknown !== undefined) throw new Error(`${field(unknown)}: there is no such field`)
  const dataplane = oneOf(entry['dataplane'], DATAPLANES, field('dataplane'))
  const because = entry['because'] === undefined ? '' : word(entry['because'], field('because'))
  if ((dataplane === 'iptables') !== (because !== '')) {
    throw new Error(`${field('because')}: belongs to iptables, and iptables needs it`)
  }
  const checks = list(entry['checks'], field('checks')).map((each) => oneOf(each, CHECKS, field('checks')))
  const quickChecks = list(entry['quickChecks'] ?? [], field('quickChecks')).map((each) =>
    oneOf(each, checks, field('quickChecks')),
  )
  return {
    name,
    suite: entry['suite'] === undefined ? undefined : word(entry['suite'], field('suite')),
    userMode: entry['userMode'] === true,
    release: word(entry['release'], field('release')),
    withoutBpf: entry['withoutBpf'] === true,
    dataplane,
    because,
    has: new Set(list(entry['has'], field('has')).flatMap((each) => membersOf(each, groups, field('has')))),
    checks,
    quickChecks,
  }
}

/** A feature, or with an @ in front the features of a group. */
function membersOf(value: unknown, groups: Readonly<Record<string, unknown>>, where: string): string[] {
  const name = word(value, where)
  if (!name.startsWith('@')) return [name]
  const group = groups[name.slice(1)]
  if (group === undefined) throw new Error(`${where}: there is no group ${name}`)
  return list(group, `features.${name}`).map((each) => word(each, `features.${name}`))
}

function record(value: unknown, where: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`${where}: has to be an object`)
  }
  return Object.fromEntries(Object.entries(value))
}

function list(value: unknown, where: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`${where}: has to be a list`)
  return value
}

function word(value: unknown, where: string): string {
  if (typeof value !== 'string' || value === '') throw new Error(`${where}: has to be text`)
  return value
}

function oneOf<T extends string>(value: unknown, words: readonly T[], where: string): T {
  const found = words.find((each) => each === value)
  if (found === undefined)
    throw new Error(`${where}: takes ${words.join(', ')}, not ${JSON.stringify(value)}`)
  return found
}
