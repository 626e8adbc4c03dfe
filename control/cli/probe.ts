/** `sluice probe`: what this kernel and node have, as text. Pure. */

import type { DeviceClass } from './facts.ts'
import { jsonText, NONE } from './names.ts'
import type { OutputFormat } from './options.ts'
import type { Finding } from './requirements.ts'
import { table } from './table.ts'

/** A program on a hook of a device. */
export interface HookedProgram {
  /** The kernel's; null for a filter that is no BPF program. */
  readonly id: number | null
  readonly ours: boolean
  readonly by: 'xdp' | 'tcx' | 'clsact'
  /** What a filter is, in words; null for others. */
  readonly filter: string | null
}

export interface ProbedDevice {
  readonly ifindex: number
  readonly name: string
  readonly class: DeviceClass
  /** One phrase. */
  readonly why: string
  /** In the order in which packets meet them. */
  readonly ingress: readonly HookedProgram[]
  readonly egress: readonly HookedProgram[]
}

/** A rule of others that Sluice makes see less. */
export interface ProbedRule {
  /** What lists it. */
  readonly tool: string
  /** `ip`, `ip6` or `inet`. */
  readonly family: string
  readonly table: string
  readonly chain: string
  /** As the tool prints it. */
  readonly rule: string
  /** What becomes of it: the rest of a sentence. */
  readonly means: string
}

/** What `sluice run` would do. */
export interface Verdict {
  /** Null: it would not start. */
  readonly dataplane: 'bpf' | 'iptables' | null
  /** The rest of a sentence; empty where there is nothing to explain. */
  readonly why: string
  /** What is needed and not here: for eBPF, and where it would not start for iptables as well. */
  readonly missing: readonly string[]
}

export interface ProbeReport {
  readonly verdict: Verdict
  readonly kernel: string
  readonly node: string
  readonly findings: readonly Finding[]
  readonly devices: readonly ProbedDevice[]
  /** Those that would meet packets to services translated. */
  readonly rules: readonly ProbedRule[]
  /** What else a person should know, one sentence each. */
  readonly notes: readonly string[]
}

export function probeText(report: ProbeReport, output: OutputFormat): string {
  return output === 'json' ? jsonText(probeJson(report)) : probeTables(report)
}

/** Whether `sluice run` would start. */
export function canRun(report: ProbeReport): boolean {
  return report.verdict.dataplane !== null
}

/** What would be done. */
function headline({ node, kernel, verdict: { dataplane, why, missing } }: ProbeReport): string {
  const where = `Node ${node}, kernel ${kernel}: sluice run`
  if (dataplane === null) return `${where} cannot start here. Missing: ${missing.join('; ')}.\n`
  const name = dataplane === 'bpf' ? 'eBPF' : dataplane
  return `${where} would use the ${name} dataplane${why === '' ? '' : `: ${why}`}.\n`
}

function probeTables(report: ProbeReport): string {
  const findings = table(
    ['WHAT', 'HERE', 'NEEDED', 'USED FOR', 'DETAIL'],
    report.findings.map(({ name, here, needed, use, detail }) => [
      name,
      here,
      needed ? 'yes' : 'no',
      use,
      detail,
    ]),
  )
  const devices = table(
    ['DEVICE', 'IFINDEX', 'CLASS', 'WHY', 'AT INGRESS', 'AT EGRESS'],
    report.devices.map((device) => [
      device.name,
      device.ifindex,
      device.class,
      device.why,
      hookText(device.ingress),
      hookText(device.egress),
    ]),
  )
  const rules =
    report.rules.length === 0
      ? ''
      : table(
          ['RULE OF OTHERS', 'LISTED BY', 'FAMILY', 'TABLE', 'CHAIN', 'WITH SLUICE IT'],
          report.rules.map((each) => [each.rule, each.tool, each.family, each.table, each.chain, each.means]),
        )
  const notes = report.notes.map((note) => `${note}\n`).join('')
  return [headline(report), findings, devices, rules, notes].filter((part) => part !== '').join('\n')
}

/** A sentence for each program of others on hooks of sockets, which are given with the programs on them. */
export function socketNotes(
  cgroup: string,
  hooks: readonly (readonly [hook: string, programs: readonly number[]])[],
): string[] {
  const ids = new Set(hooks.flatMap(([, programs]) => programs))
  return [...ids]
    .sort((a, b) => a - b)
    .map((id) => {
      const where = hooks.filter(([, programs]) => programs.includes(id)).map(([hook]) => hook)
      return `Program ${id} is on sockets of ${cgroup} too (${where.join(', ')}): if it translates Services, the first of us to run does.`
    })
}

/** In the order of the chain: `XDP program 7, sluice, program 34, flower filter (priority 1)`. */
function hookText(programs: readonly HookedProgram[]): string {
  const texts = programs.map(({ id, ours, by, filter }) => {
    if (ours) return by === 'tcx' ? 'sluice' : 'sluice (clsact)'
    return filter ?? (by === 'xdp' ? `XDP program ${id}` : `program ${id}`)
  })
  return texts.join(', ') || NONE
}

/** The names of these fields are an interface: none changes or goes. */
function probeJson({ verdict, ...report }: ProbeReport): unknown {
  return { ...verdict, ...report }
}
