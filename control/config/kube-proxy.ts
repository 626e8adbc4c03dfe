/**
 * kube-proxy's configuration (`KubeProxyConfiguration`, kubeproxy.config.k8s.io/v1alpha1), field by field in the order of
 * its `/configz`: what it can be, what it is when nobody says otherwise, and what becomes of it here. The page
 * docs/configuration.md is written from this table.
 */

import { parseAddress } from '../model/address.ts'
import { type Becomes, type Field, type Row, readTable, type Values } from './fields.ts'
import {
  BOOLEAN,
  DURATION,
  INT32_MAX,
  integer,
  type Kind,
  NUMBER,
  oneOf,
  SWITCHES,
  TEXTS,
  text,
} from './kinds.ts'
import { parseNodePortAddresses } from './node-port-options.ts'
import { parseNodeName } from './options.ts'
import { parseProxyMode } from './proxy-mode.ts'
import { Refusal } from './refusal.ts'
import { DEFAULT_HEALTHZ, DEFAULT_METRICS, parseBindAddress } from './server-options.ts'
import { DETECT_LOCAL_MODES, parseClusterCidr, parseInterface } from './traffic-options.ts'

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1'
export const KIND = 'KubeProxyConfiguration'

/** A field of some kind: what becomes of it, what that means, and what is otherwise than with most. */
function field<T>(
  kind: Kind<T>,
  becomes: Becomes,
  means: string,
  { normal = kind.zero, ...more }: Partial<Omit<Row, 'becomes' | 'means'>> & { readonly normal?: T } = {},
): Field<T> {
  return { kind, becomes, means, normal, ...more }
}

const PROTOBUF = 'application/vnd.kubernetes.protobuf'

const address = text((given) => {
  if (parseAddress(given) === undefined) throw new Refusal('It takes an IP address.')
})

/** A server's place. Port 0 and no text do not switch it off here, as with kube-proxy: the flags do. */
const bindAddress = (port: number) =>
  text((given) => {
    if (parseBindAddress(given, port) === 'off')
      throw new Refusal('It takes ADDRESS:PORT, with a port from 1 to 65535.')
  })

const nodePortRanges: Kind<readonly string[] | null> = {
  ...TEXTS,
  read: (value) => {
    const texts = TEXTS.read(value)
    if (texts !== null) parseNodePortAddresses(texts.join(','), [])
    return texts
  },
}

/** Also a number of nanoseconds, as kubeadm writes it. */
const flushFrequency: Kind<string> = {
  ...DURATION,
  read: (value) => DURATION.read(typeof value === 'number' ? `${value}ns` : value),
}

const masqueradeBit = (flag?: string) =>
  field(integer(0, 31), 'honoured', 'bit of the packet mark that has netfilter masquerade', {
    normal: 14,
    zeroIsMeant: true,
    ...(flag === undefined ? {} : { flag }),
  })

const masqueradeAll = (flag?: string) =>
  field(BOOLEAN, 'honoured', 'masquerades all traffic to ClusterIPs', flag === undefined ? {} : { flag })

const SYNC_PERIOD = 'longest pause after a failed sync; twice as long without a sync that is due is unhealthy'
const MIN_SYNC_PERIOD = 'shortest pause between two syncs; when nothing is said 5 ms, not 1 s'

const ipvs = <T>(kind: Kind<T>, means: string, flag: string) => field(kind, 'warned', means, { flag })
const NO_IPVS = 'there is no IPVS here'

const windows = <T>(kind: Kind<T>) => field(kind, 'warned', 'it is for Windows')

/** To the kernel's connection tracking, and as a flow of ours, which lives by the usual where a 0 leaves the kernel's alone. */
const conntrack = (means: string, flag: string, usual: string, normal = '0s') =>
  field(
    DURATION,
    'honoured',
    `${means}, to the kernel's connection tracking and as a flow of ours; 0: the kernel's stays as it is, ours is ${usual}`,
    { normal, zeroIsMeant: true, flag },
  )

const LOG_BUFFER = {
  infoBufferSize: field(text(), 'ignored', 'each line is written at once', { normal: '0' }),
}

export const KUBE_PROXY = {
  featureGates: field(SWITCHES, 'warned', 'there are no feature gates here: what exists is on', {
    flag: '--feature-gates',
  }),
  clientConnection: {
    kubeconfig: field(text(), 'honoured', 'how to reach the API server', { flag: '--kubeconfig' }),
    acceptContentTypes: field(text(), 'ignored', 'protobuf, and JSON where the server has no other'),
    contentType: field(
      text(),
      'warned',
      'objects are asked for as protobuf, and as JSON where the server has no other',
      {
        normal: PROTOBUF,
        flag: '--kube-api-content-type',
      },
    ),
    qps: field(
      NUMBER,
      'warned',
      'requests are few, and none is held back: one list and one watch of each kind',
      {
        normal: 5,
        flag: '--kube-api-qps',
      },
    ),
    burst: field(integer(0, INT32_MAX), 'warned', 'as for qps: no request is held back', {
      normal: 10,
      flag: '--kube-api-burst',
    }),
  },
  logging: {
    format: field(oneOf(['text', 'json']), 'honoured', 'how to log', {
      normal: 'text',
      flag: '--logging-format',
    }),
    flushFrequency: field(flushFrequency, 'ignored', 'each line is written at once', {
      normal: '5s',
      flag: '--log-flush-frequency',
    }),
    verbosity: field(integer(0, INT32_MAX), 'honoured', '0 to 2 info, 3 and 4 debug, 5 and more trace', {
      flag: '--v',
    }),
    vmodule: field(
      { ...TEXTS, read: (value) => (Array.isArray(value) ? value : TEXTS.read(value)) },
      'ignored',
      'there are no Go files to be verbose about',
      {
        flag: '--vmodule',
      },
    ),
    options: { text: LOG_BUFFER, json: LOG_BUFFER },
  },
  hostnameOverride: field(text(parseNodeName), 'honoured', 'name of the Node object of this node', {
    flag: '--hostname-override',
  }),
  bindAddress: field(
    address,
    'mapped',
    "nothing is bound to it; one of IPv6 has the metrics server's default be [::1]. The node's addresses are those of its Node object",
    {
      normal: '0.0.0.0',
      flag: '--bind-address',
    },
  ),
  healthzBindAddress: field(
    bindAddress(DEFAULT_HEALTHZ.port),
    'honoured',
    'where /healthz, /livez and /readyz are',
    {
      normal: '0.0.0.0:10256',
      flag: '--healthz-bind-address',
    },
  ),
  metricsBindAddress: field(
    bindAddress(DEFAULT_METRICS.port),
    'honoured',
    'where /metrics, /proxyMode and /configz are',
    {
      normal: '127.0.0.1:10249',
      flag: '--metrics-bind-address',
    },
  ),
  bindAddressHardFail: field(BOOLEAN, 'honoured', 'a port that is taken ends the start', {
    flag: '--bind-address-hard-fail',
  }),
  enableProfiling: field(BOOLEAN, 'warned', 'there are no /debug/pprof pages', { flag: '--profiling' }),
  showHiddenMetricsForVersion: field(text(), 'ignored', 'no metric is hidden', {
    flag: '--show-hidden-metrics-for-version',
  }),
  mode: field(
    text(parseProxyMode),
    'mapped',
    'auto, bpf or iptables; empty is auto, and nftables, ipvs and userspace are auto with a warning',
    {
      flag: '--proxy-mode',
    },
  ),
  iptables: {
    masqueradeBit: masqueradeBit('--iptables-masquerade-bit'),
    masqueradeAll: masqueradeAll('--masquerade-all'),
    localhostNodePorts: field(
      BOOLEAN,
      'honoured',
      'processes of the node reach node ports at its loopback addresses',
      {
        normal: true,
        zeroIsMeant: true,
        flag: '--iptables-localhost-nodeports',
      },
    ),
    syncPeriod: field(DURATION, 'mapped', SYNC_PERIOD, { normal: '30s', flag: '--iptables-sync-period' }),
    minSyncPeriod: field(DURATION, 'mapped', MIN_SYNC_PERIOD, { flag: '--iptables-min-sync-period' }),
  },
  ipvs: {
    syncPeriod: field(DURATION, 'mapped', `with mode ipvs: ${SYNC_PERIOD}`, {
      normal: '30s',
      flag: '--ipvs-sync-period',
    }),
    minSyncPeriod: field(DURATION, 'mapped', `with mode ipvs: ${MIN_SYNC_PERIOD}`, {
      flag: '--ipvs-min-sync-period',
    }),
    scheduler: field(
      text(),
      'mapped',
      'with mode ipvs: one of our schedulers, or round-robin with a warning',
      { flag: '--ipvs-scheduler' },
    ),
    excludeCIDRs: ipvs(TEXTS, `${NO_IPVS}, and nobody's virtual servers are touched`, '--ipvs-exclude-cidrs'),
    strictARP: ipvs(
      BOOLEAN,
      `${NO_IPVS}, and no address of a service is on a device that could answer ARP`,
      '--ipvs-strict-arp',
    ),
    tcpTimeout: ipvs(DURATION, `${NO_IPVS}: see conntrack.tcpEstablishedTimeout`, '--ipvs-tcp-timeout'),
    tcpFinTimeout: ipvs(DURATION, `${NO_IPVS}: see conntrack.tcpCloseWaitTimeout`, '--ipvs-tcpfin-timeout'),
    udpTimeout: ipvs(DURATION, `${NO_IPVS}: see conntrack.udpStreamTimeout`, '--ipvs-udp-timeout'),
  },
  nftables: {
    masqueradeBit: masqueradeBit(),
    masqueradeAll: masqueradeAll(),
    syncPeriod: field(DURATION, 'mapped', `with mode nftables: ${SYNC_PERIOD}`, { normal: '30s' }),
    minSyncPeriod: field(DURATION, 'mapped', `with mode nftables: ${MIN_SYNC_PERIOD}`),
  },
  winkernel: {
    networkName: windows(text()),
    sourceVip: windows(text()),
    enableDSR: windows(BOOLEAN),
    rootHnsEndpointName: windows(text()),
    forwardHealthCheckVip: windows(BOOLEAN),
  },
  windowsRunAsService: windows(BOOLEAN),
  detectLocalMode: field(
    oneOf(DETECT_LOCAL_MODES),
    'honoured',
    'how a pod of this node is known; empty: by clusterCIDR if there is one, else by its device',
    {
      flag: '--detect-local-mode',
    },
  ),
  detectLocal: {
    bridgeInterface: field(text(parseInterface), 'honoured', 'the bridge that the pods are on', {
      flag: '--pod-bridge-interface',
    }),
    interfaceNamePrefix: field(
      text(parseInterface),
      'honoured',
      "what the names of the pods' devices begin with",
      {
        flag: '--pod-interface-name-prefix',
      },
    ),
  },
  clusterCIDR: field(
    text(parseClusterCidr),
    'honoured',
    'range of the pods, or one of each family with a comma between',
    {
      flag: '--cluster-cidr',
    },
  ),
  nodePortAddresses: field(
    nodePortRanges,
    'honoured',
    "the node's addresses that take node ports: ranges, or primary alone; usually all, with mode nftables primary",
    {
      flag: '--nodeport-addresses',
    },
  ),
  oomScoreAdj: field(
    integer(-1000, 1000),
    'honoured',
    "the daemon's own; to lower it takes the capability SYS_RESOURCE",
    {
      normal: -999,
      zeroIsMeant: true,
      flag: '--oom-score-adj',
    },
  ),
  conntrack: {
    maxPerCore: field(
      integer(0, INT32_MAX),
      'honoured',
      "entries of the kernel's connection tracking for each CPU, 1048576 in all at most; 0: as many as there are. Flows of the programs have a table of their own (--map-size flows4=N)",
      {
        normal: 32_768,
        zeroIsMeant: true,
        flag: '--conntrack-max-per-core',
      },
    ),
    min: field(integer(0, INT32_MAX), 'honoured', 'at least so many of them in all', {
      normal: 131_072,
      zeroIsMeant: true,
      flag: '--conntrack-min',
    }),
    tcpEstablishedTimeout: conntrack(
      'how long a TCP connection may be silent',
      '--conntrack-tcp-timeout-established',
      '24h',
      '24h0m0s',
    ),
    tcpCloseWaitTimeout: conntrack(
      'the same for one that one side has closed',
      '--conntrack-tcp-timeout-close-wait',
      '1h',
      '1h0m0s',
    ),
    tcpBeLiberal: field(
      BOOLEAN,
      'honoured',
      'packets outside of the windows of TCP are no invalid ones to the kernel; our flows never look at windows',
      {
        flag: '--conntrack-tcp-be-liberal',
      },
    ),
    udpTimeout: conntrack('how long an unanswered UDP flow lives', '--conntrack-udp-timeout', '30s'),
    udpStreamTimeout: conntrack(
      'how long an answered UDP flow may be silent',
      '--conntrack-udp-timeout-stream',
      '3m',
    ),
  },
  configSyncPeriod: field(DURATION, 'ignored', 'everything is watched, and compared once an hour', {
    normal: '15m0s',
    flag: '--config-sync-period',
  }),
  portRange: field(text(), 'ignored', 'no port is opened for a service', { flag: '--proxy-port-range' }),
} as const

/** When nobody says anything. */
export function defaultValues(): KubeProxyValues {
  return readTable(KUBE_PROXY, {}, { problems: [], unknown: [] })
}

export type KubeProxyValues = Values<typeof KUBE_PROXY>
