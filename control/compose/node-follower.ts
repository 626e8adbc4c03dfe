/** Keeps attachments and node addresses as the node's network is. */

import type { SyncReport } from '../dataplane/dataplane.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { Logger } from '../log.ts'
import {
  type NodePortFacts,
  nodePortWarnings,
  takesNodePorts,
  takesNodePortsEverywhere,
} from '../model/node-ports.ts'
import type { DetectLocal } from '../model/settings.ts'
import type { Family } from '../model/types.ts'
import { classifyDevices, type DevicePatterns } from '../node/classify.ts'
import { type DetectedDevice, detectLocal } from '../node/detect-local.ts'
import { type NodeSnapshot, nodeAddresses } from '../node/state.ts'

export interface NodeFollowerOptions {
  /** Of the Node object; empty while the source has none. */
  readonly internalIPs: () => readonly string[]
  /** Whom to take for a pod of this node. */
  readonly detectLocal: DetectLocal
  /** What devices are, over what they look like. */
  readonly patterns: DevicePatterns
  /** The ranges of local pods; undefined while they are not known: then the kernel keeps what it has. */
  readonly localCidrs: () => readonly string[] | undefined
  readonly setLocalCidrs: (cidrs: readonly string[]) => void
  /** Left out: the devices mean nothing. */
  readonly setDevices?: ((devices: readonly DetectedDevice[]) => Promise<void>) | undefined
  /** What tells which addresses take node ports; undefined while it is not known: then the kernel keeps what it has. */
  readonly nodePorts: () => NodePortFacts | undefined
  readonly setNodeAddresses: (
    addresses: readonly NodeAddress[],
    everywhere: ReadonlySet<Family>,
  ) => Promise<SyncReport>
  /** The node's own addresses are others now. */
  readonly addressesChanged: (addresses: readonly string[]) => void
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>
}

const FAMILIES: readonly Family[] = ['ipv4', 'ipv6']

export class NodeFollower {
  readonly #options: NodeFollowerOptions
  #snapshot: NodeSnapshot | undefined
  #last: Promise<unknown> = Promise.resolve()
  #internalIPs: readonly string[] = []
  #addresses = ''
  /** The addresses as they were written, and what told which of them take node ports. */
  #written = ''
  #nodePortFacts: NodePortFacts | undefined
  readonly #warnings = new Set<string>()
  #localCidrs: string | undefined
  /** Classes by device, to tell of those that changed. */
  #classes = new Map<string, string>()

  constructor(options: NodeFollowerOptions) {
    this.#options = options
  }

  /** The node's network is another. Resolves when the kernel has it; what fails is logged. */
  async setSnapshot(snapshot: NodeSnapshot): Promise<void> {
    this.#snapshot = snapshot
    this.#setLocalCidrs()
    await Promise.all([this.#setAddresses(snapshot), this.#setDevices(snapshot)])
  }

  /** Resolves when nothing is being written any more. */
  async idle(): Promise<void> {
    await this.#last.catch(() => undefined)
  }

  /** Does what failed before once more; nothing otherwise. */
  async refresh(): Promise<void> {
    if (this.#snapshot !== undefined) await this.setSnapshot(this.#snapshot)
  }

  /** The Node object may be another: its InternalIP says which device is external, its `podCIDRs` who is local. */
  async nodeObjectChanged(): Promise<void> {
    this.#setLocalCidrs()
    await Promise.all([this.#nodePortsChanged(), this.#internalIPsChanged()])
  }

  async #nodePortsChanged(): Promise<void> {
    const facts = this.#options.nodePorts()
    const isSame = facts?.ips.join() === this.#nodePortFacts?.ips.join()
    if (!isSame && this.#snapshot !== undefined) await this.#setAddresses(this.#snapshot)
  }

  async #internalIPsChanged(): Promise<void> {
    const isSame = this.#options.internalIPs().join() === this.#internalIPs.join()
    if (!isSame && this.#snapshot !== undefined) await this.#setDevices(this.#snapshot)
  }

  #setLocalCidrs(): void {
    const { detectLocal: how, setLocalCidrs, log } = this.#options
    const cidrs = this.#options.localCidrs()
    const text = cidrs?.join()
    if (cidrs === undefined || text === this.#localCidrs) return
    try {
      setLocalCidrs(cidrs)
      this.#localCidrs = text
      if (how.mode === 'NodeCIDR' && cidrs.length === 0) {
        log.warn(
          'the Node object has no spec.podCIDRs: until it has, --detect-local-mode NodeCIDR takes nobody for a pod',
        )
      }
    } catch (error) {
      log.warn('cannot write the ranges of local pods', { err: error })
    }
  }

  async #setAddresses(snapshot: NodeSnapshot): Promise<void> {
    const addresses = nodeAddresses(snapshot)
    const text = addresses.map(({ address }) => address).join()
    if (text !== this.#addresses) {
      this.#addresses = text
      this.#options.addressesChanged(addresses.map(({ address }) => address))
    }
    const facts = this.#options.nodePorts()
    this.#nodePortFacts = facts
    if (facts === undefined) return
    for (const warning of nodePortWarnings(facts)) this.#warnOnce(warning)
    await this.#writeAddresses(
      addresses.map(({ address, loopback }) => ({
        address,
        loopback,
        nodePort: takesNodePorts(address, facts),
      })),
      new Set(FAMILIES.filter((family) => takesNodePortsEverywhere(family, facts))),
    )
  }

  #warnOnce(warning: string): void {
    if (this.#warnings.has(warning)) return
    this.#warnings.add(warning)
    this.#options.log.warn(warning)
  }

  async #writeAddresses(addresses: readonly NodeAddress[], everywhere: ReadonlySet<Family>): Promise<void> {
    const text = addresses
      .map(({ address, nodePort }) => `${address}${nodePort ? '' : ' (no node ports)'}`)
      .join()
    const wanted = `${text} ${[...everywhere].join()}`
    if (wanted === this.#written) return
    this.#written = wanted
    try {
      const { failed } = await this.#options.setNodeAddresses(addresses, everywhere)
      for (const message of failed) this.#options.log.warn(`node address: ${message}`)
      this.#options.log.debug('node addresses', { addresses: text })
      // The kernel refused some: to be tried again.
      if (failed.length > 0) this.#written = ''
    } catch (error) {
      this.#written = ''
      this.#options.log.warn('cannot write the node addresses', { err: error })
    }
  }

  async #setDevices(snapshot: NodeSnapshot): Promise<void> {
    const { setDevices } = this.#options
    if (setDevices === undefined) return
    this.#internalIPs = this.#options.internalIPs()
    const devices = detectLocal(
      classifyDevices(snapshot, this.#internalIPs, this.#options.patterns),
      this.#options.detectLocal,
    )
    const classes = new Map(devices.map((device) => [device.name, device.class]))
    for (const { name, class: deviceClass, why } of devices) {
      const before = this.#classes.get(name)
      if (before === deviceClass) continue
      // Pods come and go all day.
      const isRare = deviceClass === 'external' || deviceClass === 'tunnel'
      this.#options.log[isRare ? 'info' : 'debug'](`device ${name} is ${deviceClass}: ${why}`)
    }
    for (const name of this.#classes.keys()) {
      if (!classes.has(name)) this.#options.log.debug(`device ${name} is gone`)
    }
    this.#classes = classes
    try {
      // One after the other inside, so that the last one ends last.
      this.#last = setDevices(devices)
      await this.#last
    } catch (error) {
      this.#options.log.warn('cannot attach to the devices', { err: error })
    }
  }
}
