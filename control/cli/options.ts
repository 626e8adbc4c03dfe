/**
 * What the options of each command are, once read, and how their texts are understood. Pure: a text
 * that does not fit throws a `Refusal` that says what the option takes.
 */

import { Refusal } from './refusal.ts'

/** Where the pins are when nobody says otherwise. */
export const DEFAULT_BPF_ROOT = '/sys/fs/bpf/sluice'

export type OutputFormat = 'table' | 'json'

export const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const
export type ProtocolName = (typeof PROTOCOLS)[number]

/** Where the objects come from. */
export interface SourceOption {
  readonly kind: 'files'
  /** A folder of manifests. */
  readonly folder: string
}

export interface RootOption {
  /** The folder of the pins, in a BPF file system. */
  readonly bpfRoot: string
}

export interface RunOptions extends RootOption {
  readonly source: SourceOption
  readonly nodeName: string
  /** Undefined: the root of the first cgroup v2 mount. */
  readonly cgroupRoot: string | undefined
  /** Entries by map name, instead of the defaults in the object. */
  readonly mapSizes: Readonly<Record<string, number>>
  /** klog's: 0 to 2 info, 3 and 4 debug, 5 and more trace. */
  readonly verbosity: number
  readonly loggingFormat: 'text' | 'json'
}

/** Undefined: all of them. */
export interface ServiceFilter {
  /** `namespace/name`, or a name alone for that name in every namespace. */
  readonly service: string | undefined
  readonly protocol: ProtocolName | undefined
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
}

/** `files:DIR`. */
export function parseSource(text: string): SourceOption {
  const folder = /^files:(.+)$/.exec(text)?.[1]
  if (folder === undefined) throw new Refusal('It takes files:DIR, a folder of YAML manifests.')
  return { kind: 'files', folder }
}

/** Names are what the API server accepts: RFC 1123 subdomains. */
export function parseNodeName(text: string): string {
  const name = text.trim().toLowerCase()
  if (name.length > 253 || !/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(name)) {
    throw new Refusal('It takes the name of a Node object: letters, digits, "-" and ".".')
  }
  return name
}

export function parsePath(text: string): string {
  if (!text.startsWith('/')) throw new Refusal('It takes an absolute path.')
  return text === '/' ? text : text.replace(/\/+$/, '')
}

/** The largest number of entries that the kernel's map attribute can hold. */
const MAP_SIZE_MAX = 2 ** 32 - 1

/** `NAME=N`, added to the sizes given so far. The last one of a name counts. */
export function parseMapSize(
  text: string,
  sizes: Readonly<Record<string, number>> = {},
): Record<string, number> {
  const [, name, digits] = /^([A-Za-z0-9_.]+)=(\d+)$/.exec(text) ?? []
  const entries = Number(digits)
  if (name === undefined || !(entries >= 1 && entries <= MAP_SIZE_MAX)) {
    throw new Refusal('It takes NAME=N: a map and its number of entries, such as flows4=65536.')
  }
  return { ...sizes, [name]: entries }
}

export function parseVerbosity(text: string): number {
  if (!/^\d{1,2}$/.test(text)) throw new Refusal('It takes a number: 0 to 2 info, 3 debug, 5 trace.')
  return Number(text)
}

export function parseProtocol(text: string): ProtocolName {
  const protocol = PROTOCOLS.find((name) => name === text.toUpperCase())
  if (protocol === undefined) throw new Refusal(`It takes ${PROTOCOLS.join(', ')}.`)
  return protocol
}
