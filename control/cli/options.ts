/**
 * What the options of the commands that print are, once read, and how their texts are understood. Pure: a text that does
 * not fit throws a `Refusal` that says what the option takes.
 */

import type { DevicePatterns } from '../config/device-options.ts'
import type { PortRange } from '../config/node-port-options.ts'
import type { RootOption, SourceOption } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import { parseAddress } from '../model/address.ts'

export type OutputFormat = 'table' | 'json'

export const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const
export type ProtocolName = (typeof PROTOCOLS)[number]

export const FAMILIES = ['ipv4', 'ipv6'] as const
export type FamilyName = (typeof FAMILIES)[number]

export interface CleanupOptions extends RootOption {
  /** Connections go on: they are handed over to netfilter. */
  readonly drain: boolean
  /** What kube-proxy left is meant, instead of what Sluice did. */
  readonly kubeProxy: boolean
}

/** Undefined: all of them. */
export interface ServiceFilter {
  /** `namespace/name`, or a name alone for that name in every namespace. */
  readonly service: string | undefined
  readonly protocol: ProtocolName | undefined
  readonly family: FamilyName | undefined
}

export interface FactOptions extends RootOption, ServiceFilter {
  readonly output: OutputFormat
}

export interface BackendOptions extends FactOptions {
  readonly state: string | undefined
}

export interface FlowOptions extends FactOptions {
  readonly state: string | undefined
  /** An address. */
  readonly client: string | undefined
}

export interface ProbeOptions extends RootOption {
  readonly output: OutputFormat
  readonly nodeName: string
  readonly cgroupRoot: string | undefined
  /** Where the Node object is, for its InternalIP; undefined: do without. */
  readonly source: SourceOption | undefined
  readonly nodePortRange: PortRange
  readonly devicePatterns: DevicePatterns
}

/** Canonical text, as what it is compared with. */
export function parseClient(text: string): string {
  const address = parseAddress(text)
  if (address === undefined) throw new Refusal('It takes an IP address.')
  return address.text
}

/** `ipv4`, `IPv4` or `4`; the same with 6. */
export function parseFamily(text: string): FamilyName {
  const family = FAMILIES.find((name) => name === text.toLowerCase() || name === `ipv${text}`)
  if (family === undefined) throw new Refusal(`It takes ${FAMILIES.join(', ')}.`)
  return family
}

export function parseProtocol(text: string): ProtocolName {
  const protocol = PROTOCOLS.find((name) => name === text.toUpperCase())
  if (protocol === undefined) throw new Refusal(`It takes ${PROTOCOLS.join(', ')}.`)
  return protocol
}

/** Those of a command that has more, alone. */
export function factOptions(options: FactOptions): FactOptions {
  return {
    bpfRoot: options.bpfRoot,
    output: options.output,
    service: options.service,
    protocol: options.protocol,
    family: options.family,
  }
}
