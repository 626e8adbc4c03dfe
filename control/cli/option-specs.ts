/** Options of `sluice run` as data: those of kube-proxy under its names, and what goes with them. Pure. */

import { DEVICE_OPTIONS, parseGlobs } from '../config/device-options.ts'
import { FIELD_FLAGS, OTHER_FLAGS } from '../config/kube-proxy-flags.ts'
import { parseNodePortAddresses } from '../config/node-port-options.ts'
import { DEFAULT_MASQUERADE_BIT, OWN_MARK_BITS, parseNodeName } from '../config/options.ts'
import { DEFAULT_HEALTHZ, DEFAULT_METRICS, parseBindAddress, parsePort } from '../config/server-options.ts'
import { parseTimeout, TIMEOUT_OPTIONS } from '../config/timeouts.ts'
import {
  CLIENT_ADDRESSES,
  DETECT_LOCAL_MODES,
  parseBoolean,
  parseClusterCidr,
  parseInterface,
  parseMasqueradeBit,
} from '../config/traffic-options.ts'
import type { NodePortAddresses } from '../model/settings.ts'

/** An option of a command. */
export interface OptionSpec {
  /** As commander writes them: `--name <VALUE>`, `--name [BOOL]`. */
  readonly flags: string
  readonly description: string
  /** May throw a `Refusal` that says what the option takes. `previous` is what was given before it, or the default. */
  readonly parse?: (text: string, previous: unknown) => unknown
  readonly choices?: readonly string[]
  /** When it is not given, and how the help says that. */
  readonly normal?: unknown
  readonly normalText?: string
  /** When it is given without a value. */
  readonly preset?: string
  /** The help does not list it. */
  readonly isHidden?: boolean
}

export const TRAFFIC_SPECS: readonly OptionSpec[] = [
  {
    flags: '--detect-local-mode <MODE>',
    description: 'how a pod of this node is known (default: by --cluster-cidr if given, else by its device)',
    choices: DETECT_LOCAL_MODES,
  },
  {
    flags: '--cluster-cidr <CIDRS>',
    description: 'range of the pods, or one of each family: A,B',
    parse: parseClusterCidr,
  },
  {
    flags: '--pod-bridge-interface <NAME>',
    description: 'the bridge that the pods are on',
    parse: parseInterface,
  },
  {
    flags: '--pod-interface-name-prefix <PREFIX>',
    description: "what the names of the pods' devices begin with",
    parse: parseInterface,
  },
  {
    flags: '--masquerade-all [BOOL]',
    description: 'masquerade all traffic to ClusterIPs, that of pods too',
    parse: parseBoolean,
    preset: 'true',
    normal: false,
  },
  {
    flags: '--client-address <HOW>',
    description: "keep a client's address wherever its answers return, or masquerade as kube-proxy does",
    choices: CLIENT_ADDRESSES,
    normal: 'preserve',
  },
  {
    flags: '--iptables-masquerade-bit <BIT>',
    description: 'bit of the packet mark that says: masquerade',
    parse: (text) => parseMasqueradeBit(text, OWN_MARK_BITS),
    normal: DEFAULT_MASQUERADE_BIT,
  },
]

export const NODE_PORT_SPECS: readonly OptionSpec[] = [
  {
    flags: '--nodeport-addresses <RANGES>',
    description: "the node's addresses that take node ports: ranges, or primary for those of its Node object",
    parse: (text, before) => parseNodePortAddresses(text, before as NodePortAddresses),
    normal: [],
    normalText: 'all of them',
  },
  {
    flags: '--iptables-localhost-nodeports [BOOL]',
    description: 'whether processes of the node reach node ports at 127.0.0.1 and ::1',
    parse: parseBoolean,
    preset: 'true',
    normal: true,
  },
]

export const TIMEOUT_SPECS: readonly OptionSpec[] = TIMEOUT_OPTIONS.map(
  ({ flags, description, normal, unsaid }) => ({
    flags,
    description,
    parse: parseTimeout,
    normal: unsaid,
    normalText: `${normal}s`,
  }),
)

export const DEVICE_SPECS: readonly OptionSpec[] = DEVICE_OPTIONS.map(({ flags, description }) => ({
  flags,
  description,
  parse: (text: string, before: unknown) => parseGlobs(text, before as readonly string[]),
  normal: [],
  normalText: 'none',
}))

export const SERVER_SPECS: readonly OptionSpec[] = [
  {
    flags: '--healthz-bind-address <ADDRESS>',
    description: 'where /healthz, /livez and /readyz are; empty: nowhere',
    parse: (text) => parseBindAddress(text, DEFAULT_HEALTHZ.port),
    normal: DEFAULT_HEALTHZ,
    normalText: '0.0.0.0:10256',
  },
  {
    flags: '--metrics-bind-address <ADDRESS>',
    description: 'where /metrics, /proxyMode and /configz are; empty: nowhere',
    parse: (text) => parseBindAddress(text, DEFAULT_METRICS.port),
    normal: DEFAULT_METRICS,
    normalText: '127.0.0.1:10249',
  },
  {
    flags: '--bind-address-hard-fail [BOOL]',
    description: 'end the start when one of these ports is taken, instead of waiting for it',
    parse: parseBoolean,
    preset: 'true',
    normal: false,
  },
]

/** kube-proxy's flags for which there is no option of ours by another name, and those that are such a name. */
export const KUBE_PROXY_SPECS: readonly OptionSpec[] = [
  {
    flags: '--config <FILE>',
    description:
      "the cluster's KubeProxyConfiguration, beside which most of kube-proxy's flags change nothing, or a SluiceConfiguration; may be given for each",
    parse: (text, before) => (text === '' ? before : [...((before as readonly string[]) ?? []), text]),
  },
  {
    flags: '--write-config-to <FILE>',
    description: 'only write the configuration there, as it would be used, in the terms of kube-proxy',
  },
  {
    flags: '--init-only [BOOL]',
    description:
      'only do what takes every privilege, mounts and sysctls: a daemon with fewer of them may follow',
    parse: parseBoolean,
    preset: 'true',
  },
  {
    flags: '--hostname-override <NAME>',
    description: 'the same as --node-name',
    parse: (text) => (text === '' ? '' : parseNodeName(text)),
    isHidden: true,
  },
  { flags: '--master <ADDRESS>', description: 'the same as --api-server', isHidden: true },
  {
    flags: '--healthz-port <PORT>',
    description: 'the port of --healthz-bind-address; 0: nowhere',
    parse: parsePort,
    isHidden: true,
  },
  {
    flags: '--metrics-port <PORT>',
    description: 'the port of --metrics-bind-address; 0: nowhere',
    parse: parsePort,
    isHidden: true,
  },
  {
    flags: '--cleanup [BOOL]',
    description: 'only do what sluice cleanup does',
    parse: parseBoolean,
    preset: 'true',
    isHidden: true,
  },
  ...[
    ...FIELD_FLAGS,
    ...Object.entries(OTHER_FLAGS).map(([flag, { isBoolean, told }]) => ({
      flag,
      isBoolean,
      means: told ?? '',
    })),
  ].map(({ flag, isBoolean, means }) => ({
    flags: isBoolean ? `${flag} [BOOL]` : `${flag} <VALUE>`,
    description: means,
    ...(isBoolean ? { preset: 'true' } : {}),
    isHidden: true,
  })),
]
