/**
 * Our own configuration (`SluiceConfiguration`, sluice.dev/v1alpha1): what kube-proxy's has no field for. Each field is an
 * option of `sluice run`, which goes before it. The page docs/configuration.md and the JSON Schema in deploy/ are written from
 * this table.
 */

import { SOCKET_MODES } from '../model/pod-sockets.ts'
import { SCHEDULERS } from '../model/schedulers.ts'
import { parseGlobs } from './device-options.ts'
import type { Field, Values } from './fields.ts'
import { DURATION, type Kind, oneOf, SIZES, TEXTS, text } from './kinds.ts'
import { parseNodePortRange } from './node-port-options.ts'
import { ATTACH_OPTIONS, DEFAULT_BPF_ROOT, DEFAULT_NETNS_DIR, parsePath } from './options.ts'
import type { ReadRunOptions } from './run-options.ts'
import { DEFAULT_TIMEOUTS, parseTimeout } from './timeouts.ts'
import { CLIENT_ADDRESSES } from './traffic-options.ts'

export const SLUICE_API_VERSION = 'sluice.dev/v1alpha1'
export const SLUICE_KIND = 'SluiceConfiguration'

function own<T>(
  kind: Kind<T>,
  flag: string,
  means: string,
  normal: T = kind.zero,
): Field<T> & { readonly flag: string } {
  return { kind, becomes: 'honoured', means, normal, flag }
}

/** Globs over the names of devices. */
const globs: Kind<readonly string[] | null> = {
  ...TEXTS,
  read: (value) => {
    const texts = TEXTS.read(value)
    if (texts !== null) parseGlobs(texts.join(','))
    return texts
  },
}

const timeout: Kind<string> = {
  ...DURATION,
  read: (value) => {
    const duration = DURATION.read(value)
    parseTimeout(duration)
    return duration
  },
}

export const SLUICE = {
  apiServer: own(
    text(),
    '--api-server',
    'URL or HOST:PORT of the API server, instead of the one named elsewhere',
  ),
  bpfRoot: own(text(parsePath), '--bpf-root', 'folder of the pins', DEFAULT_BPF_ROOT),
  cgroupRoot: own(
    text(parsePath),
    '--cgroup-root',
    'cgroup v2 folder whose processes are served at their sockets; usually the root of the mount',
  ),
  netnsDir: own(
    text(parsePath),
    '--netns-dir',
    "folder of the files of pods' network namespaces",
    DEFAULT_NETNS_DIR,
  ),
  attach: own(
    oneOf(ATTACH_OPTIONS),
    '--attach',
    'how programs are attached to devices; auto: by tcx where the kernel has it',
    'auto',
  ),
  socketLoadBalancing: own(
    oneOf(SOCKET_MODES),
    '--socket-load-balancing',
    "whose sockets are served: host, the node's own and of pods that ask for it; all, but of pods that refuse",
    'host',
  ),
  scheduler: own(
    oneOf(SCHEDULERS),
    '--scheduler',
    'how a backend is picked where the Service does not say; usually round-robin, with iptables random',
  ),
  clientAddress: own(
    oneOf(CLIENT_ADDRESSES),
    '--client-address',
    "keep a client's address wherever its answers return, or masquerade as kube-proxy does",
    'preserve',
  ),
  serviceNodePortRange: own(
    text(parseNodePortRange),
    '--service-node-port-range',
    "the API server's range of node ports",
    '30000-32767',
  ),
  handoverTimeout: own(
    timeout,
    '--handover-timeout',
    'after a first start, how long connections of another proxy may live where netfilter cannot be asked',
    `${DEFAULT_TIMEOUTS.handover / 3600}h0m0s`,
  ),
  externalInterfaces: own(
    globs,
    '--external-interfaces',
    'devices that clients outside are behind, whatever they look like',
  ),
  podInterfaces: own(
    globs,
    '--pod-interfaces',
    'devices that pods of this node are behind, whatever they look like',
  ),
  ignoreInterfaces: own(globs, '--ignore-interfaces', 'devices that get no program; before the other two'),
  mapSizes: own(SIZES, '--map-size', 'entries of maps, by their names; a flag replaces them all'),
} as const

export type SluiceValues = Values<typeof SLUICE>

/** What is said by them, as options: what is as usual, or given as a flag, is left to the flags. */
export function ownOptions(values: SluiceValues, flags: readonly string[]): Partial<ReadRunOptions> {
  const says = (name: keyof SluiceValues) => {
    const { flag, normal } = SLUICE[name]
    return !flags.includes(flag) && JSON.stringify(values[name]) !== JSON.stringify(normal)
  }
  const { attach, socketLoadBalancing, scheduler, clientAddress } = values
  const interfaces = (name: 'externalInterfaces' | 'podInterfaces' | 'ignoreInterfaces') =>
    says(name) ? { [name]: parseGlobs((values[name] ?? []).join(',')) } : {}
  return {
    ...(says('apiServer') && !flags.includes('--master') ? { apiServer: values.apiServer } : {}),
    ...(says('bpfRoot') ? { bpfRoot: parsePath(values.bpfRoot) } : {}),
    ...(says('cgroupRoot') ? { cgroupRoot: parsePath(values.cgroupRoot) } : {}),
    ...(says('netnsDir') ? { netnsDir: parsePath(values.netnsDir) } : {}),
    ...(says('attach') && attach !== '' ? { attach } : {}),
    ...(says('socketLoadBalancing') && socketLoadBalancing !== '' ? { socketLoadBalancing } : {}),
    ...(says('scheduler') && scheduler !== '' ? { scheduler } : {}),
    ...(says('clientAddress') && clientAddress !== '' ? { clientAddress } : {}),
    ...(says('serviceNodePortRange')
      ? { serviceNodePortRange: parseNodePortRange(values.serviceNodePortRange) }
      : {}),
    ...(says('handoverTimeout') ? { handoverTimeout: parseTimeout(values.handoverTimeout) } : {}),
    ...interfaces('externalInterfaces'),
    ...interfaces('podInterfaces'),
    ...interfaces('ignoreInterfaces'),
    ...(says('mapSizes') ? { mapSize: values.mapSizes } : {}),
  }
}
