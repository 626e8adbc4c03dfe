/**
 * The iptables dataplane: the desired state as the rules that kube-proxy would write, by the node's own flavour of
 * iptables. For kernels on which the eBPF one cannot work.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { type NetlinkSocket, openNetlink } from 'libbpf-ts'
import type { Logger } from '../../log.ts'
import { familyOf } from '../../model/address.ts'
import type { DesiredState, Family, ServiceKey } from '../../model/types.ts'
import type { Dataplane, Restored, SyncReport } from '../dataplane.ts'
import { type RunCommand, runCommand } from '../netfilter/command.ts'
import { detectFlavour, type Flavour, otherFlavour } from '../netfilter/flavour.ts'
import { leniently, type Sysctls, systemSysctls } from '../netfilter/sysctls.ts'
import { isMarked, MARKER } from './canary.ts'
import { ensureCounters, readCounters } from './counters.ts'
import { type FamilyCounts, FamilyRules, type VariableSettings } from './family-rules.ts'
import { IptablesError, openIptables } from './iptables.ts'
import { CANARY } from './jump-rules.ts'
import { probeRules } from './probe-rules.ts'
import { hasServiceRules, removeServiceRules } from './removal.ts'
import type { Counter, LocalPods, RuleSettings } from './rule-settings.ts'
import { type Reconciled, StaleConntrack } from './stale-conntrack.ts'

export interface IptablesDataplaneOptions {
  /** Those that the kernel has. */
  readonly families: readonly Family[]
  /** The bit of the packet mark that says "masquerade", as a mask. */
  readonly masqueradeMark: number
  /** Where they take node ports, processes of the node may use them at 127.0.0.1. */
  readonly localhostNodePorts: boolean
  /** The node's own when left out. */
  readonly flavour?: Flavour
  readonly log: Pick<Logger, 'debug' | 'info' | 'warn'>
  /** Hears of every look for stale entries of the connection tracking. */
  readonly reconciled?: (what: Reconciled) => void
  /** Ends the wait for locks. */
  readonly signal?: AbortSignal
  /** How the node is reached; tests have one in a network namespace. */
  readonly run?: RunCommand
  readonly sysctls?: Sysctls
  readonly openNetfilter?: () => Pick<NetlinkSocket, 'request' | 'close'>
}

/** An address of the node. */
export interface NodeAddress {
  /** Canonical text. */
  readonly address: string
  /** Takes node ports. */
  readonly nodePort: boolean
}

/** Why the dataplane cannot work in any family. */
export class NoIptablesError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'NoIptablesError'
  }
}

const LIBERAL = 'net.netfilter.nf_conntrack_tcp_be_liberal'

/** After the canary of one table is gone, so long it is waited for those of the others: somebody is flushing still. */
const FLUSH_WAIT_MS = 5000
const FLUSH_POLL_MS = 100

export class IptablesDataplane implements Dataplane {
  readonly name = 'iptables'
  readonly #options: IptablesDataplaneOptions
  readonly #run: RunCommand
  readonly #sysctls: Sysctls
  readonly #conntrack: StaleConntrack
  #rules: readonly FamilyRules[] = []
  #flavour: Flavour | undefined
  #counters: ReadonlySet<Counter> = new Set()
  readonly #refused = new Map<Family, unknown>()
  /** What was told of the other flavour's rules; they are looked at once. */
  #hasLookedAtOther = false
  #localPods: Readonly<Partial<Record<Family, LocalPods>>> = {}
  #addresses: readonly NodeAddress[] = []
  /** Families whose node ports are at every address. */
  #everywhere: ReadonlySet<Family> = new Set(['ipv4', 'ipv6'])

  constructor(options: IptablesDataplaneOptions) {
    this.#options = options
    this.#run = options.run ?? runCommand
    this.#sysctls = options.sysctls ?? systemSysctls
    this.#conntrack = new StaleConntrack({
      log: options.log,
      reconciled: options.reconciled ?? (() => undefined),
      open: this.#openNetfilter,
    })
  }

  /** Those that are served. */
  get families(): readonly Family[] {
    return this.#rules.map(({ family }) => family)
  }

  /** Families whose rules the kernel refuses, and what it says. */
  get refused(): ReadonlyMap<Family, unknown> {
    return this.#refused
  }

  /** The flavour of iptables whose commands write the rules; undefined before the start. */
  get flavour(): Flavour | undefined {
    return this.#flavour
  }

  /** For the metrics, by family. */
  counts(): ReadonlyMap<Family, FamilyCounts> {
    return new Map(this.#rules.map((rules) => [rules.family, rules.counts]))
  }

  /** How many packets the rules have counted in the counters that the kernel has. Rejects with NetlinkError. */
  async packets(): Promise<ReadonlyMap<Counter, bigint>> {
    return this.#withNetfilter((netlink) => readCounters(netlink, this.#counters))
  }

  /**
   * Finds out what the node has, by writing rules of each kind and removing them again. No chain of services is touched:
   * what is there serves until the first sync. Throws NoIptablesError when no family can be served.
   */
  async start(): Promise<Restored> {
    const { log, flavour: wanted } = this.#options
    const choice =
      wanted === undefined ? await detectFlavour(this.#run) : { flavour: wanted, why: 'asked for' }
    if (choice === undefined) throw new NoIptablesError('neither flavour of iptables works here')
    log.info(`iptables: flavour ${choice.flavour}, ${choice.why}`)
    const counters = await this.#withNetfilter(ensureCounters)
    this.#counters = counters
    const found = { counters, dropInvalid: (this.#sysctls.read(LIBERAL) ?? '0') === '0' }
    const refusals = await this.#openFamilies(choice.flavour, found)
    // What prints its empty tables does not always take rules; whoever is only waiting for a lock does.
    if (this.#rules.length === 0 && wanted === undefined && !refusals.some(isLocked)) {
      const other = otherFlavour(choice.flavour)
      const what = `iptables: the kernel takes no rules of flavour ${choice.flavour}, and ${other} is tried`
      log.warn(what, { err: refusals[0] })
      refusals.push(...(await this.#openFamilies(other, found)))
    }
    if (this.#rules.length === 0) throw new NoIptablesError(refusals.map(String).join('; '))
    for (const [family, error] of this.#refused) {
      log.warn(`the rules of ${family} cannot be written: that family is not served`, { err: error })
    }
    return this.#restored()
  }

  /**
   * What tells pods of this node from other clients, by family. True if the rules have to change: then a sync is due.
   * For the first sync: before it.
   */
  setLocalPods(localPods: Readonly<Partial<Record<Family, LocalPods>>>): boolean {
    return this.#change(() => {
      this.#localPods = localPods
    })
  }

  /**
   * The node's addresses, and the families whose node ports are at every address, also one that comes later. True if the
   * rules have to change: then a sync is due.
   */
  setNodeAddresses(addresses: readonly NodeAddress[], everywhere: ReadonlySet<Family>): boolean {
    return this.#change(() => {
      this.#addresses = addresses
      this.#everywhere = everywhere
    })
  }

  /**
   * One family after the other: what fails in one hinders the other in nothing, and is in the report. Throws when
   * nothing could be written at all. What fails leaves what is in the kernel, and everything is written the next time.
   */
  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    const startMs = performance.now()
    const failed: string[] = []
    let [written, deleted, unchanged] = [0, 0, 0]
    let firstError: unknown
    for (const rules of this.#rules) {
      try {
        const report = await rules.sync(desired, changed)
        written += report.written
        deleted += report.deleted
        unchanged += report.unchanged
        if (report.hasOtherUdpEndpoints) {
          this.#conntrack.reconcile(rules.family, desired, this.#ownAddresses(rules.family))
        }
      } catch (error) {
        firstError ??= error
        failed.push(`${rules.family}: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    if (failed.length === this.#rules.length) throw firstError
    if (failed.length === 0) await this.#lookAtOtherFlavour()
    const durationMs = performance.now() - startMs
    return { written, deleted, unchanged, failed, isLate: failed.length > 0, durationMs }
  }

  /**
   * Whether somebody has flushed our rules: the canary is gone. Then it has been waited for a flush that is under way,
   * and the next sync, which is due now, writes everything. Rejects where that cannot be told.
   */
  async isFlushed(): Promise<boolean> {
    let isFlushed = false
    for (const rules of this.#rules) {
      if (!rules.isWritten || (await rules.iptables.hasChain('mangle', CANARY))) continue
      await this.#waitForFlush(rules)
      rules.distrust()
      isFlushed = true
    }
    return isFlushed
  }

  /** Resolves when nothing is being done beside a sync. */
  async idle(): Promise<void> {
    await this.#conntrack.idle()
  }

  async stop(mode: 'leave' | 'remove'): Promise<void> {
    await this.idle()
    if (mode === 'remove') await removeServiceRules({ whose: 'ours', run: this.#run, sysctls: this.#sysctls })
  }

  readonly #tellOfSysctl = (name: string, error: unknown) => {
    this.#options.log.warn(
      `cannot set the sysctl ${name}: node ports are not reached at 127.0.0.1; make /proc/sys writable, name in \
SLUICE_SYSCTL_ROOT where it is, or give --iptables-localhost-nodeports=false`,
      { err: error },
    )
  }

  readonly #openNetfilter = () => this.#options.openNetfilter?.() ?? openNetlink({ family: 'netfilter' })

  async #withNetfilter<T>(act: (netlink: Pick<NetlinkSocket, 'request'>) => Promise<T>): Promise<T> {
    const netlink = this.#openNetfilter()
    try {
      return await act(netlink)
    } finally {
      netlink.close()
    }
  }

  /** Those that can be served by this flavour from now on; what comes back is why the others cannot. */
  async #openFamilies(
    flavour: Flavour,
    found: Pick<RuleSettings, 'counters' | 'dropInvalid'>,
  ): Promise<unknown[]> {
    this.#flavour = flavour
    this.#refused.clear()
    const rules: FamilyRules[] = []
    for (const family of this.#options.families) {
      try {
        rules.push(await this.#openFamily(family, flavour, found))
      } catch (error) {
        this.#refused.set(family, error)
      }
    }
    this.#rules = rules
    return [...this.#refused.values()]
  }

  /** Rejects where the kernel or iptables lacks something that the rules need. */
  async #openFamily(
    family: Family,
    flavour: Flavour,
    found: Pick<RuleSettings, 'counters' | 'dropInvalid'>,
  ): Promise<FamilyRules> {
    const options = { run: this.#run, ...(this.#options.signal && { signal: this.#options.signal }) }
    const iptables = await openIptables(family, flavour, options)
    if (iptables === undefined)
      throw new IptablesError(`no iptables of flavour ${flavour} for ${family}`, false)
    await probeRules(iptables, family)
    const other = await openIptables(family, otherFlavour(flavour), options)
    const { masqueradeMark } = this.#options
    const fixed = { ...found, masqueradeMark, randomFully: iptables.hasRandomFully }
    return new FamilyRules(
      { family, iptables, other, fixed, sysctls: leniently(this.#sysctls, this.#tellOfSysctl) },
      this.#settingsOf(family),
    )
  }

  async #restored(): Promise<Restored> {
    let [adopted, services, backends] = [false, 0, 0]
    for (const { iptables } of this.#rules) {
      if (!(await iptables.hasChain('mangle', MARKER))) continue
      const saved = await iptables.save('nat')
      adopted = true
      services += new Set([...saved.matchAll(/^:KUBE-SV[CL]-(\S+) /gm)].map(([, digest]) => digest)).size
      backends += [...saved.matchAll(/^:KUBE-SEP-/gm)].length
    }
    return { adopted, services, backends }
  }

  #change(act: () => void): boolean {
    const settings = () => JSON.stringify(this.#rules.map(({ family }) => this.#settingsOf(family)))
    const before = settings()
    act()
    if (settings() === before) return false
    for (const rules of this.#rules) rules.set(this.#settingsOf(rules.family))
    return true
  }

  #settingsOf(family: Family): VariableSettings {
    const isEverywhere = this.#everywhere.has(family)
    const taking = this.#addresses
      .filter(({ address, nodePort }) => nodePort && familyOf(address) === family && address !== '::1')
      .map(({ address }) => address)
    return {
      localPods: this.#localPods[family],
      localhostNodePorts:
        this.#options.localhostNodePorts &&
        (isEverywhere || taking.some((address) => address.startsWith('127.'))),
      nodePortAddresses: isEverywhere ? 'all' : taking,
    }
  }

  #ownAddresses(family: Family): ReadonlySet<string> {
    return new Set(
      this.#addresses.map(({ address }) => address).filter((address) => familyOf(address) === family),
    )
  }

  /** Rules in the other flavour are in force as well, and may send connections to endpoints that are gone. */
  async #lookAtOtherFlavour(): Promise<void> {
    if (this.#hasLookedAtOther || this.#flavour === undefined) return
    this.#hasLookedAtOther = true
    const { log } = this.#options
    const flavour = otherFlavour(this.#flavour)
    try {
      const options = { run: this.#run, flavours: [flavour] }
      // What was turned on is needed still.
      const removed = await removeServiceRules({ ...options, whose: 'ours', sysctls: UNTOUCHED })
      for (const what of removed)
        log.info(`removed what an earlier run had written in the other flavour: ${what}`)
      for (const { family } of this.#rules) {
        const saved = await (await openIptables(family, flavour, options))?.saveAll()
        if (saved === undefined || isMarked(saved) || !hasServiceRules(saved)) continue
        log.warn(
          `there are rules of a kube-proxy in iptables-${flavour}, too (${family}), and they are in force: if it does \
not run any more, \`sluice cleanup --kube-proxy\` removes them`,
        )
      }
    } catch (error) {
      this.#hasLookedAtOther = false
      log.warn('cannot look at the rules of the other flavour of iptables', { err: error })
    }
  }

  async #waitForFlush({ iptables }: FamilyRules): Promise<void> {
    const untilMs = performance.now() + FLUSH_WAIT_MS
    for (const table of ['nat', 'filter'] as const) {
      while (performance.now() < untilMs && (await iptables.hasChain(table, CANARY))) {
        await pause(FLUSH_POLL_MS)
      }
    }
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof IptablesError && error.isBusy
}

const UNTOUCHED: Sysctls = { read: () => '0', write: () => undefined }
