/** The rules of one family in the kernel: what is held, what is to be written next, and whether that must be everything. */

import { isDeepStrictEqual } from 'node:util'
import type { DesiredState, Family, ServiceKey, ServicePort } from '../../model/types.ts'
import type { Sysctls } from '../netfilter/sysctls.ts'
import { canaryLines, markerLines, notesLocalnet, ROUTE_LOCALNET } from './canary.ts'
import type { Iptables } from './iptables.ts'
import type { Table } from './jump-rules.ts'
import { jumpLines, missingJumps } from './jumps.ts'
import type { NodePortAddresses, RuleSettings } from './rule-settings.ts'
import { type Held, RuleRenderer, type Since } from './rules.ts'
import { hasOtherUdpEndpoints } from './stale-conntrack.ts'

/** What a sync of one family did, in rules. */
export interface FamilyReport {
  readonly written: number
  /** Chains of service ports that are gone. */
  readonly deleted: number
  readonly unchanged: number
  /** Conntrack may hold entries of UDP clients that go where nobody is. */
  readonly hasOtherUdpEndpoints: boolean
}

type WrittenRules = Omit<FamilyReport, 'hasOtherUdpEndpoints'>
type ChangedPorts = readonly [before: readonly ServicePort[], after: readonly ServicePort[]]

/** Numbers for the metrics. */
export interface FamilyCounts {
  /** In our chains. */
  readonly rules: { readonly filter: number; readonly nat: number }
  /** By the last sync. */
  readonly written: { readonly filter: number; readonly nat: number }
  readonly failures: number
  /** Of those the ones that were to write changes alone. */
  readonly partialFailures: number
}

/** What the rules depend on and may change while they are there. */
export type VariableSettings = Pick<RuleSettings, 'localPods' | 'localhostNodePorts'> & {
  readonly nodePortAddresses: NodePortAddresses
}

export interface FamilyRulesOptions {
  readonly family: Family
  readonly iptables: Iptables
  /** Of the other flavour, to learn what an earlier process noted there. */
  readonly other: Iptables | undefined
  readonly fixed: Omit<RuleSettings, 'family' | 'localPods' | 'localhostNodePorts'>
  readonly sysctls: Sysctls
}

const NO_RULES = { filter: 0, nat: 0 }
const KUBELET_FIREWALL = 'KUBE-FIREWALL'

export class FamilyRules {
  readonly family: Family
  readonly iptables: Iptables
  readonly #options: FamilyRulesOptions
  #settings: VariableSettings
  #renderer: RuleRenderer
  /** The kernel holds what it was last given; else the next sync writes everything. */
  #isTrusted = false
  /** What the kernel was last given, and the addresses of node ports then. */
  #given: DesiredState | undefined
  #givenAddresses: NodePortAddresses = 'all'
  /** Whether ROUTE_LOCALNET is to be off again one day. Undefined while nobody has looked. */
  #noteLocalnet: boolean | undefined
  #counts: FamilyCounts = { rules: NO_RULES, written: NO_RULES, failures: 0, partialFailures: 0 }

  constructor(options: FamilyRulesOptions, settings: VariableSettings) {
    this.family = options.family
    this.iptables = options.iptables
    this.#options = options
    this.#settings = settings
    this.#renderer = this.#newRenderer()
  }

  get counts(): FamilyCounts {
    return this.#counts
  }

  /** For the next sync, which writes everything if the chains of services are concerned. */
  set(settings: VariableSettings): void {
    const isSame = JSON.stringify(settings.localPods) === JSON.stringify(this.#settings.localPods)
    const before = this.#settings
    this.#settings = settings
    if (isSame && settings.localhostNodePorts === before.localhostNodePorts) return
    this.#renderer = this.#newRenderer()
    this.#isTrusted = false
  }

  /** The next sync writes everything. */
  distrust(): void {
    this.#isTrusted = false
  }

  /** A sync has gone through since the start. */
  get isWritten(): boolean {
    return this.#given !== undefined
  }

  /** Throws IptablesError; then what was in the kernel is still there, and the next sync writes everything. */
  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<FamilyReport> {
    const given = this.#isTrusted ? this.#given : undefined
    const nodePortAddresses = this.#givenAddresses
    const since =
      given === undefined || changed === undefined
        ? undefined
        : { desired: given, changed, nodePortAddresses }
    const differing = this.#differing(desired, since?.changed)
    const isSameNode = isDeepStrictEqual(nodePortAddresses, this.#settings.nodePortAddresses)
    if (since !== undefined && isSameNode && differing.length === 0) {
      this.#given = desired
      const { filter, nat } = this.#counts.rules
      return { written: 0, deleted: 0, unchanged: filter + nat, hasOtherUdpEndpoints: false }
    }
    // From now on: distrust that comes while it is being written is not forgotten.
    this.#isTrusted = true
    try {
      const counts = await (since === undefined ? this.#syncAll(desired) : this.#write(desired, since))
      this.#given = desired
      return {
        ...counts,
        hasOtherUdpEndpoints: differing.some(([before, after]) => hasOtherUdpEndpoints(before, after)),
      }
    } catch (error) {
      this.#isTrusted = false
      const { failures, partialFailures } = this.#counts
      this.#counts = {
        ...this.#counts,
        failures: failures + 1,
        partialFailures: partialFailures + (since === undefined ? 0 : 1),
      }
      throw error
    }
  }

  /** First what the chains hold, then what leads to them. */
  async #syncAll(desired: DesiredState): Promise<WrittenRules> {
    const { iptables } = this.#options
    // First that of the canary that is looked at: what is flushed from here on takes it along, and it is not made again.
    const mangle = await iptables.save('mangle')
    const nat = await iptables.save('nat')
    const filter = await iptables.save('filter')
    const chains = [...nat.matchAll(/^:(\S+) /gm)].map(([, name = '']) => name)
    const report = await this.#write(desired, { chains })
    const opensLocalnet = await this.#opensLocalnet(mangle)
    const missing = await missingJumps(iptables, { nat, filter })
    // The kubelet may have it, with rules of its own: it is named only where it would be new.
    const hasFirewall = this.#writesFirewall() || filter.includes(`\n:${KUBELET_FIREWALL} `)
    // The canary that is looked at comes last.
    const text = restoreText([
      [
        'filter',
        ...(hasFirewall ? [] : [`:${KUBELET_FIREWALL} - [0:0]`]),
        ...canaryLines(filter),
        ...jumpLines(missing, 'filter'),
      ],
      ['nat', ...canaryLines(nat), ...jumpLines(missing, 'nat')],
      ['mangle', ...canaryLines(mangle), ...markerLines(mangle, this.#noteLocalnet === true)],
    ])
    if (text !== '') await iptables.restore(text)
    // The rules are there that guard it: only now may packets to 127.0.0.0/8 leave loopback.
    if (opensLocalnet) this.#options.sysctls.write(ROUTE_LOCALNET, '1')
    return report
  }

  async #write(desired: DesiredState, base: Held | Since): Promise<WrittenRules> {
    const { nodePortAddresses } = this.#settings
    const { text, rules, written, removed } = this.#renderer.render({ desired, base, nodePortAddresses })
    if (text !== '') await this.iptables.restore(text)
    this.#givenAddresses = nodePortAddresses
    this.#counts = { ...this.#counts, rules, written }
    const count = written.filter + written.nat
    return { written: count, deleted: removed, unchanged: rules.filter + rules.nat - count }
  }

  /** Whether ROUTE_LOCALNET is needed and off. Finds out, the first time, whether it is to be off again one day. */
  async #opensLocalnet(mangle: string): Promise<boolean> {
    if (!this.#writesFirewall()) return false
    const isOff = this.#options.sysctls.read(ROUTE_LOCALNET) === '0'
    // An earlier run may have noted it in the other flavour. That of all tables: legacy makes what it is asked for.
    this.#noteLocalnet ??=
      isOff || notesLocalnet(mangle) || notesLocalnet((await this.#options.other?.saveAll()) ?? '')
    return isOff
  }

  #writesFirewall(): boolean {
    return this.family === 'ipv4' && this.#settings.localhostNodePorts
  }

  /** The family's ports of every service that differs from what the kernel was given: before, and after. */
  #differing(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): readonly ChangedPorts[] {
    const given = this.#given?.services
    const keys = changed ?? new Set([...(given?.keys() ?? []), ...desired.services.keys()])
    const differing: ChangedPorts[] = []
    for (const key of keys) {
      const [before, after] = [given?.get(key), desired.services.get(key)]
      // Health-check node ports are not in it.
      if (before === after && changed === undefined) continue
      const ports: ChangedPorts = [this.#ownPorts(before), this.#ownPorts(after)]
      if (ports.some(({ length }) => length > 0)) differing.push(ports)
    }
    return differing
  }

  #ownPorts(ports: readonly ServicePort[] | undefined): readonly ServicePort[] {
    return ports?.filter(({ family }) => family === this.family) ?? []
  }

  #newRenderer(): RuleRenderer {
    const { localPods, localhostNodePorts } = this.#settings
    const { fixed, family } = this.#options
    return new RuleRenderer({ ...fixed, family, localPods, localhostNodePorts })
  }
}

/** Input of `iptables-restore`: tables with their lines; nothing of a table without any. */
function restoreText(tables: readonly (readonly [table: Table, ...lines: string[]])[]): string {
  return tables
    .filter(([, ...lines]) => lines.length > 0)
    .map(([table, ...lines]) => [`*${table}`, ...lines, 'COMMIT', ''].join('\n'))
    .join('')
}
