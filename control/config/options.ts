/**
 * What the options of the daemon are, once read, and how the texts of its own ones are understood. Pure: a text that does
 * not fit throws a `Refusal` that says what the option takes.
 */

import type { SocketMode } from '../model/pod-sockets.ts'
import type { TrafficSettings } from '../model/settings.ts'
import type { DevicePatterns } from './device-options.ts'
import type { KubeProxyValues } from './kube-proxy.ts'
import type { PortRange } from './node-port-options.ts'
import type { ProxyOptions } from './proxy-mode.ts'
import { Refusal } from './refusal.ts'
import type { ServerOptions } from './server-options.ts'
import type { ConntrackOptions, FlowTimeouts } from './timeouts.ts'

/** Where the pins are when nobody says otherwise. */
export const DEFAULT_BPF_ROOT = '/sys/fs/bpf/sluice'

/** Where containerd and CRI-O have pods' network namespaces, and `ip netns` its own. */
export const DEFAULT_NETNS_DIR = '/run/netns'
/** kube-proxy's default, too. */
export const DEFAULT_MASQUERADE_BIT = 14
/** Bits of the packet mark: this packet may pass FORWARD, this one was sent back by us. */
export const OWN_MARK_BITS = [13, 12] as const

/** Ways of attaching to devices; `auto`: tcx where the kernel has it. */
export const ATTACH_OPTIONS = ['auto', 'tcx', 'clsact'] as const
export type AttachOption = (typeof ATTACH_OPTIONS)[number]

/** Where the objects come from. */
export type SourceOption =
  | {
      readonly kind: 'files'
      /** A folder of manifests. */
      readonly folder: string
    }
  | {
      readonly kind: 'kubernetes'
      /** A file; undefined: what the kubelet gives to the pod. */
      readonly kubeconfig: string | undefined
      /** Instead of the server named there. */
      readonly apiServer: string | undefined
    }

/** What `--source` and the options that go with it say, as they were given. */
export interface SourceTexts {
  readonly source: string | undefined
  readonly kubeconfig: string | undefined
  readonly apiServer: string | undefined
}

export interface RootOption {
  /** The folder of the pins, in a BPF file system. */
  readonly bpfRoot: string
}

export interface RunOptions extends RootOption, ServerOptions, ProxyOptions {
  readonly source: SourceOption
  readonly nodeName: string
  /** Undefined: the root of the first cgroup v2 mount. */
  readonly cgroupRoot: string | undefined
  /** How programs are attached to devices. */
  readonly attach: AttachOption
  /** Whose sockets are served. */
  readonly socketLoadBalancing: SocketMode
  /** The folder of the files of pods' network namespaces. */
  readonly netnsDir: string
  /** Entries by map name, instead of the defaults in the object. */
  readonly mapSizes: Readonly<Record<string, number>>
  /** Who is a pod of this node, and whose address is kept. */
  readonly model: TrafficSettings
  /** Bit of the packet mark that has netfilter masquerade. */
  readonly masqueradeBit: number
  readonly timeouts: FlowTimeouts
  readonly conntrack: ConntrackOptions
  /** The API server's `--service-node-port-range`. */
  readonly nodePortRange: PortRange
  /** What devices are, over what they look like. */
  readonly devicePatterns: DevicePatterns
  /** klog's: 0 to 2 info, 3 and 4 debug, 5 and more trace. */
  readonly verbosity: number
  readonly loggingFormat: 'text' | 'json'
  /** How soon a change is written, and how long a failure may last. */
  readonly pacing: PacingOptions
  /** The daemon's own; undefined: it is left as it is. */
  readonly oomScoreAdj: number | undefined
  /** The configuration in kube-proxy's terms: a file's, or what flags make of the usual one. */
  readonly kubeProxy: KubeProxyValues
  /** The files that it is from, and what is ours. */
  readonly configFiles: readonly ConfigFile[]
  /** Only this is to be done: the configuration is written there. */
  readonly writeConfigTo: string | undefined
  /** Only what takes every privilege is to be done. */
  readonly initOnly: boolean
}

/** kube-proxy's `minSyncPeriod` and `syncPeriod`, in milliseconds. */
export interface PacingOptions {
  /** From the end of a sync to the beginning of the next; undefined: as short as may be. */
  readonly minSyncPeriodMs: number | undefined
  /** The longest pause after a failed sync. Twice as long without a sync that is due is unhealthy. */
  readonly syncPeriodMs: number
}

/** A configuration file, as it was read. */
export interface ConfigFile {
  readonly path: string
  readonly text: string
}

const SOURCES = 'files:DIR, a folder of YAML manifests, or kubernetes, the cluster'

/** `files:DIR` or `kubernetes`. Returns it as it is. */
export function parseSource(text: string): string {
  if (text !== 'kubernetes' && !/^files:.+$/.test(text)) throw new Refusal(`It takes ${SOURCES}.`)
  return text
}

/**
 * A cluster that is named, or that this process runs in, need not be asked for. Undefined if nothing says where the
 * objects come from.
 *
 * @param isInPod the kubelet has named the API server to this process
 */
export function sourceOf(
  { source, kubeconfig, apiServer }: SourceTexts,
  isInPod: boolean,
): SourceOption | undefined {
  const folder = source === undefined ? undefined : /^files:(.+)$/.exec(source)?.[1]
  const isNamed = kubeconfig !== undefined || apiServer !== undefined
  if (folder === undefined) {
    return source === 'kubernetes' || isNamed || isInPod
      ? { kind: 'kubernetes', kubeconfig, apiServer }
      : undefined
  }
  if (!isNamed) return { kind: 'files', folder }
  const option = kubeconfig === undefined ? '--api-server' : '--kubeconfig'
  throw new Refusal(`${option} goes with --source kubernetes, not with ${source}.`)
}

/** Where the objects come from, for `sluice run`, which must know. */
export function requiredSource(texts: SourceTexts, isInPod: boolean): SourceOption {
  const source = sourceOf(texts, isInPod)
  if (source === undefined) throw new Refusal(`--source is missing: it takes ${SOURCES}.`)
  return source
}

/** As it is given on the command line. */
export function sourceText(source: SourceOption): string {
  return source.kind === 'files' ? `files:${source.folder}` : source.kind
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

/** `-v=2` is how Go's flags are written, too. */
export function parseVerbosity(text: string): number {
  const digits = text.replace(/^=/, '')
  if (!/^\d{1,2}$/.test(digits)) throw new Refusal('It takes a number: 0 to 2 info, 3 debug, 5 trace.')
  return Number(digits)
}
