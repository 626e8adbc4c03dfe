/** The options of `sluice run`, from the texts that were given, each understood by itself, to what they mean. Pure. */

import { familyOf } from '../model/address.ts'
import type { Configuration } from './configuration.ts'
import { type DevicePatterns, devicePatterns } from './device-options.ts'
import { KUBE_PROXY, type KubeProxyValues } from './kube-proxy.ts'
import { type FlagTexts, flagsBesideConfig, type ReadFlags, readFlags } from './kube-proxy-flags.ts'
import { type PortRange, parseNodePortAddresses } from './node-port-options.ts'
import {
  type PacingOptions,
  parseNodeName,
  type RunOptions,
  requiredSource,
  type SourceTexts,
} from './options.ts'
import { parseProxyMode, proxyOptions, type ReadProxyOptions } from './proxy-mode.ts'
import { masqueradeSectionOf, millisecondsOf, sectionOf } from './rules.ts'
import {
  type BindAddress,
  DEFAULT_HEALTHZ,
  DEFAULT_METRICS,
  parseBindAddress,
  type ReadServerOptions,
  serverOptions,
} from './server-options.ts'
import { ownOptions } from './sluice.ts'
import { conntrackOptions, flowTimeouts, parseTimeout, type ReadTimeouts } from './timeouts.ts'
import { modelSettings, parseClusterCidr, type ReadTrafficOptions } from './traffic-options.ts'

/** As commander hands them over: by the long names of the options. */
export interface ReadRunOptions
  extends Pick<
      RunOptions,
      'nodeName' | 'bpfRoot' | 'cgroupRoot' | 'attach' | 'socketLoadBalancing' | 'netnsDir' | 'loggingFormat'
    >,
    SourceTexts,
    ReadTrafficOptions,
    ReadServerOptions,
    ReadProxyOptions,
    DevicePatterns,
    ReadTimeouts {
  readonly mapSize: Readonly<Record<string, number>>
  readonly v: number
  readonly iptablesMasqueradeBit: number
  readonly serviceNodePortRange: PortRange
  /** kube-proxy's names of `nodeName` and `apiServer`. */
  readonly hostnameOverride?: string
  readonly master?: string
  /** 0: the server is switched off. */
  readonly healthzPort?: number
  readonly metricsPort?: number
  readonly writeConfigTo?: string
  readonly initOnly?: boolean
}

/** All that was given. */
export interface Given {
  readonly read: ReadRunOptions
  /** Flags on the command line, or in the environment, with their dashes. */
  readonly flags: readonly string[]
  /** Those of kube-proxy that are understood by a field of its configuration. */
  readonly texts: FlagTexts
  /** Whether an API server that nobody names is the one that the kubelet does. */
  readonly isInPod: boolean
  /** What `--config` says. */
  readonly configuration?: Configuration
}

/**
 * What they come to together.
 *
 * @throws Refusal for what does not go together, or cannot be used
 */
export function runOptions(given: Given): RunOptions {
  const { configuration, flags, isInPod } = given
  const { values, warnings } = sayings(given)
  const isOfFile = configuration?.kubeProxy !== undefined
  const read = {
    ...(isOfFile ? withFile(given, values) : withPorts(given, values)),
    ...(configuration?.sluice === undefined ? {} : ownOptions(configuration.sluice, flags)),
  }
  const { bpfRoot, cgroupRoot, attach, socketLoadBalancing, netnsDir, loggingFormat } = read
  const proxy = proxyOptions(read)
  const model = modelSettings(read.proxyMode === 'nftables' ? withNftablesDefault(read) : read)
  return {
    source: requiredSource(sourceTexts(read), isInPod),
    nodeName: read.hostnameOverride || read.nodeName,
    bpfRoot,
    cgroupRoot,
    attach,
    socketLoadBalancing,
    netnsDir,
    mapSizes: read.mapSize,
    model,
    masqueradeBit: read.iptablesMasqueradeBit,
    timeouts: flowTimeouts(read),
    conntrack: conntrackOptions(read, values.conntrack),
    ...serverOptions(read),
    ...proxy,
    warnings: [...warnings, ...proxy.warnings],
    nodePortRange: read.serviceNodePortRange,
    devicePatterns: devicePatterns(read),
    verbosity: read.v,
    loggingFormat,
    pacing: pacingOf(values, read.proxyMode),
    oomScoreAdj: isOfFile || flags.includes('--oom-score-adj') ? values.oomScoreAdj : undefined,
    kubeProxy: values,
    configFiles: configuration?.files ?? [],
    writeConfigTo: read.writeConfigTo || undefined,
    initOnly: read.initOnly ?? false,
  }
}

/** What is said in kube-proxy's terms: by a file, or by flags. */
function sayings({ configuration, flags, texts }: Given): ReadFlags {
  const { kubeProxy, warnings = [] } = configuration ?? {}
  if (kubeProxy !== undefined)
    return { values: kubeProxy, warnings: [...flagsBesideConfig(flags), ...warnings] }
  const read = readFlags(texts)
  return { values: read.values, warnings: [...warnings, ...read.warnings] }
}

/** Those that say where the objects are, of all. */
export function sourceTexts({
  source,
  kubeconfig,
  apiServer,
  master,
}: SourceTexts & { readonly master?: string }): SourceTexts {
  return { source, kubeconfig, apiServer: apiServer ?? (master || undefined) }
}

/** kube-proxy's nftables mode opens node ports at the node's own addresses only, where nobody says otherwise. */
function withNftablesDefault(read: ReadRunOptions): ReadRunOptions {
  return read.nodeportAddresses.length === 0 ? { ...read, nodeportAddresses: 'primary' } : read
}

function pacingOf(values: KubeProxyValues, mode: string): PacingOptions {
  const { syncPeriod, minSyncPeriod } = values[sectionOf(mode)]
  return {
    syncPeriodMs: millisecondsOf(syncPeriod),
    minSyncPeriodMs: millisecondsOf(minSyncPeriod) || undefined,
  }
}

/** kube-proxy's old flags for the ports, and its `--bind-address`, where no address is given. */
function withPorts({ read, flags }: Given, { bindAddress }: KubeProxyValues): ReadRunOptions {
  const at = (address: BindAddress | 'off', port: number | undefined): BindAddress | 'off' => {
    if (port === undefined || address === 'off') return address
    return port === 0 ? 'off' : { ...address, port }
  }
  const metrics = flags.includes('--metrics-bind-address')
    ? read.metricsBindAddress
    : metricsDefault(bindAddress)
  return {
    ...read,
    healthzBindAddress: at(read.healthzBindAddress, read.healthzPort),
    metricsBindAddress: at(metrics, read.metricsPort),
  }
}

/** kube-proxy's default is of the family of its `bindAddress`. */
function metricsDefault(bindAddress: string): BindAddress {
  return familyOf(bindAddress) === 'ipv6' ? { ...DEFAULT_METRICS, address: '::1' } : DEFAULT_METRICS
}

/** All options, with what a file says in the place of what flags say: of those only some count beside it. */
function withFile({ read, flags }: Given, values: KubeProxyValues): ReadRunOptions {
  const { detectLocalMode: _mode, clusterCidr: _cidr, ipvsScheduler: _scheduler, ...own } = read
  const { podBridgeInterface: _bridge, podInterfaceNamePrefix: _prefix, ...rest } = own
  const { logging, mode, conntrack, nodePortAddresses, metricsBindAddress } = values
  const { masqueradeAll, masqueradeBit } = values[masqueradeSectionOf(mode)]
  const isUsual = metricsBindAddress === KUBE_PROXY.metricsBindAddress.normal
  return {
    ...rest,
    // Whoever names a folder of manifests means no API server, whatever the cluster's file says.
    kubeconfig: read.source?.startsWith('files:')
      ? undefined
      : values.clientConnection.kubeconfig || undefined,
    nodeName: flags.includes('--node-name')
      ? read.nodeName
      : parseNodeName(values.hostnameOverride || read.nodeName),
    v: flags.includes('--v') ? read.v : logging.verbosity,
    loggingFormat: flags.includes('--logging-format')
      ? read.loggingFormat
      : logging.format === 'json'
        ? 'json'
        : 'text',
    healthzBindAddress: parseBindAddress(values.healthzBindAddress, DEFAULT_HEALTHZ.port),
    metricsBindAddress: isUsual
      ? metricsDefault(values.bindAddress)
      : parseBindAddress(metricsBindAddress, DEFAULT_METRICS.port),
    bindAddressHardFail: values.bindAddressHardFail,
    proxyMode: parseProxyMode(mode),
    ipvsScheduler: values.ipvs.scheduler,
    iptablesMasqueradeBit: masqueradeBit,
    masqueradeAll,
    iptablesLocalhostNodeports: values.iptables.localhostNodePorts,
    ...podsOf(values),
    nodeportAddresses: parseNodePortAddresses((nodePortAddresses ?? []).join(','), []),
    conntrackTcpTimeoutEstablished: parseTimeout(conntrack.tcpEstablishedTimeout),
    conntrackTcpTimeoutCloseWait: parseTimeout(conntrack.tcpCloseWaitTimeout),
    conntrackUdpTimeout: parseTimeout(conntrack.udpTimeout),
    conntrackUdpTimeoutStream: parseTimeout(conntrack.udpStreamTimeout),
  }
}

/** How pods are known. A name that its mode does not ask for means nothing, as with kube-proxy. */
function podsOf({
  detectLocalMode: mode,
  detectLocal,
  clusterCIDR,
}: KubeProxyValues): Partial<ReadTrafficOptions> {
  return {
    ...(mode === '' ? {} : { detectLocalMode: mode }),
    ...(clusterCIDR === '' ? {} : { clusterCidr: parseClusterCidr(clusterCIDR) }),
    ...(mode === 'BridgeInterface' ? { podBridgeInterface: detectLocal.bridgeInterface } : {}),
    ...(mode === 'InterfaceNamePrefix' ? { podInterfaceNamePrefix: detectLocal.interfaceNamePrefix } : {}),
  }
}
