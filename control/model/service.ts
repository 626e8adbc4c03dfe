/**
 * One Service, judged: what of it can be used, sorted by IP family, and a Problem for each value that cannot.
 * Knows nothing of endpoints or of other services.
 */

import { isSpecialAddress, parseAddress, parseCidr } from './address.ts'
import type { FrontendKey } from './claims.ts'
import { readHealthCheckNodePort } from './health-checks.ts'
import { isName, NAME_RULE } from './name.ts'
import { isPort, isProtocol } from './port.ts'
import { isScheduler, SCHEDULERS } from './schedulers.ts'
import type {
  Family,
  Frontend,
  FrontendKind,
  Problem,
  Protocol,
  Scheduler,
  Service,
  ServicePortSpec,
} from './types.ts'
import { parseWeights, WEIGHTS_ANNOTATION, type Weights } from './weights.ts'

/** A frontend that a service asks for, and the field of the object that asks. */
export interface Claim {
  readonly key: FrontendKey
  readonly frontend: Frontend
  readonly field: string
}

/** One port of a service in one family, before endpoints and before other services have their say. */
export interface WantedPort {
  readonly portName: string
  readonly protocol: Protocol
  readonly family: Family
  readonly clusterIP: string
  readonly claims: readonly Claim[]
  /** Reachable otherwise than by its ClusterIP: by a node port, a load-balancer or an external address. */
  readonly externallyAccessible: boolean
  /** As in `ServicePort.sourceRanges`, before the node's own address is considered. */
  readonly sourceRanges: readonly string[] | undefined
}

/** A Service that is proxied. */
export interface WantedService {
  readonly ports: readonly WantedPort[]
  readonly internalLocal: boolean
  /** `externalTrafficPolicy: Local`, which means something only where external clients have an address to come by. */
  readonly externalLocal: boolean
  readonly affinitySeconds: number
  /** Undefined: what the settings say. */
  readonly scheduler: Scheduler | undefined
  readonly weights: Weights
  /** As in `ServicePort`. */
  readonly kernelSockets: boolean
  /** 0: none. */
  readonly healthCheckNodePort: number
  /** Milliseconds since 1970; Infinity when the object does not say. */
  readonly createdAt: number
  readonly problems: readonly Problem[]
}

/** Annotation that chooses the scheduler of one service. */
export const SCHEDULER_ANNOTATION = 'sluice.dev/scheduler'

/** Annotation of a service that the node's kernel itself uses, by NFS, Ceph and the like: `true`. */
export const KERNEL_SOCKETS_ANNOTATION = 'sluice.dev/kernel-sockets'

/** Either label on a Service means that another proxy, or none, is responsible for it. */
const SKIP_LABELS = ['service.kubernetes.io/service-proxy-name', 'service.kubernetes.io/headless']

const FAMILIES: readonly Family[] = ['ipv4', 'ipv6']

/** The API server's limits of `timeoutSeconds`, and its default. */
const AFFINITY_SECONDS_MAX = 86_400
const AFFINITY_SECONDS_DEFAULT = 10_800

/** Collects what is wrong with one object. */
type Complain = (field: string, message: string) => void

/** An address and the field it stands in. */
interface Placed {
  readonly kind: FrontendKind
  readonly family: Family
  readonly address: string
  readonly field: string
}

/**
 * Judges a Service. Undefined if it is none of ours and nothing is wrong with that: no ClusterIP, headless,
 * ExternalName, or labelled for another proxy.
 */
export function readService(service: Service): WantedService | undefined {
  if (isSkipped(service)) return undefined
  const problems: Problem[] = []
  const object = `Service ${service.namespace}/${service.name}`
  const complain: Complain = (field, message) => problems.push({ object, field, message })
  const addresses = readAddresses(service, complain)
  const ranges = readSourceRanges(service, complain)
  const ports = hasNames(service, complain) ? readPorts(service, complain) : []
  const created = Date.parse(service.creationTimestamp)
  return {
    ports: wantedPorts(addresses, ports, ranges, complain),
    internalLocal: service.internalTrafficPolicy === 'Local',
    externalLocal: service.externalTrafficPolicy === 'Local',
    affinitySeconds: readAffinity(service, complain),
    scheduler: readScheduler(service, complain),
    weights: readWeights(service, complain),
    kernelSockets: readKernelSockets(service, complain),
    healthCheckNodePort: readHealthCheckNodePort(service, complain),
    createdAt: Number.isNaN(created) ? Number.POSITIVE_INFINITY : created,
    problems,
  }
}

/** Without a name that can be told from every other one there is no service. */
function hasNames(service: Service, complain: Complain): boolean {
  const wrong = (['namespace', 'name'] as const).filter((field) => !isName(service[field]))
  for (const field of wrong) complain(`metadata.${field}`, `it ${NAME_RULE}; the service is left out`)
  return wrong.length === 0
}

function isSkipped(service: Service): boolean {
  if (service.type === 'ExternalName') return true
  if (SKIP_LABELS.some((label) => Object.hasOwn(service.labels, label))) return true
  return service.clusterIPs.every((address) => address === '' || address === 'None')
}

/**
 * All addresses of the service, best claim first: where one address is named twice, it is the ClusterIP before a
 * load-balancer address before an external one, so that source ranges cannot be passed by naming the address again.
 * Load-balancer addresses are those of the status; one that belongs to the load balancer itself (`ipMode: Proxy`,
 * KEP-1860) or has only a host name makes no frontend.
 */
function readAddresses(service: Service, complain: Complain): readonly Placed[] {
  const placed: Placed[] = []
  const place = (kind: FrontendKind, field: string, text: string) => {
    const address = parseAddress(text)
    if (address === undefined) {
      complain(field, `${JSON.stringify(text)} is no IP address; it is left out`)
    } else if (kind !== 'ClusterIP' && isSpecialAddress(address.text)) {
      complain(field, `${address.text} is a loopback, link-local or unspecified address; it is left out`)
    } else {
      placed.push({ kind, family: address.family, address: address.text, field })
    }
  }
  service.clusterIPs.forEach((text, i) => {
    if (text !== '' && text !== 'None') place('ClusterIP', `spec.clusterIPs[${i}]`, text)
  })
  service.loadBalancerIngress.forEach(({ ip, ipMode }, i) => {
    if (ip !== '' && ipMode !== 'Proxy') place('LoadBalancer', `status.loadBalancer.ingress[${i}].ip`, ip)
  })
  service.externalIPs.forEach((text, i) => {
    place('ExternalIP', `spec.externalIPs[${i}]`, text)
  })
  return placed
}

/**
 * Source ranges by family; undefined where the family has none and so is not restricted. A range that cannot be read
 * lets nobody in, rather than everybody: then neither family is left unrestricted.
 */
function readSourceRanges(
  service: Service,
  complain: Complain,
): Readonly<Record<Family, readonly string[] | undefined>> {
  const ranges: Record<Family, string[]> = { ipv4: [], ipv6: [] }
  let unreadable = false
  service.loadBalancerSourceRanges.forEach((text, i) => {
    const cidr = parseCidr(text)
    if (cidr !== undefined) {
      if (!ranges[cidr.family].includes(cidr.text)) ranges[cidr.family].push(cidr.text)
      return
    }
    unreadable = true
    complain(`spec.loadBalancerSourceRanges[${i}]`, `${JSON.stringify(text)} is no CIDR; it lets nobody in`)
  })
  const restricted = (family: Family) =>
    ranges[family].length > 0 || unreadable ? ranges[family] : undefined
  return { ipv4: restricted('ipv4'), ipv6: restricted('ipv6') }
}

/** A port that can be used, and where it stands in `spec.ports`. */
interface CheckedPort extends ServicePortSpec {
  readonly index: number
}

function readPorts(service: Service, complain: Complain): readonly CheckedPort[] {
  const checked: CheckedPort[] = []
  const names = new Set<string>()
  service.ports.forEach((spec, index) => {
    const field = `spec.ports[${index}]`
    const name = `${spec.protocol} ${spec.name}`
    if (!isProtocol(spec.protocol)) {
      complain(
        `${field}.protocol`,
        `${JSON.stringify(spec.protocol)} is not TCP, UDP or SCTP; the port is left out`,
      )
    } else if (!isPort(spec.port)) {
      complain(`${field}.port`, `${spec.port} is not a port from 1 to 65535; the port is left out`)
    } else if (spec.name !== '' && !isName(spec.name)) {
      complain(`${field}.name`, `it ${NAME_RULE}; the port is left out`)
    } else if (names.has(name)) {
      complain(`${field}.name`, `a ${spec.protocol} port of that name is listed before; this one is left out`)
    } else {
      names.add(name)
      checked.push({ ...spec, index, nodePort: readNodePort(spec, field, complain) })
    }
  })
  return checked
}

function readNodePort(spec: ServicePortSpec, field: string, complain: Complain): number {
  if (spec.nodePort === 0 || isPort(spec.nodePort)) return spec.nodePort
  complain(`${field}.nodePort`, `${spec.nodePort} is not a port from 1 to 65535; there is no node port`)
  return 0
}

/** A family without a ClusterIP has no ports at all, not even node ports and load-balancer addresses of that family. */
function wantedPorts(
  addresses: readonly Placed[],
  ports: readonly CheckedPort[],
  ranges: Readonly<Record<Family, readonly string[] | undefined>>,
  complain: Complain,
): readonly WantedPort[] {
  const takenBy = new Map<FrontendKey, CheckedPort>()
  const wanted: WantedPort[] = []
  for (const family of FAMILIES) {
    const ofFamily = addresses.filter((placed) => placed.family === family)
    const clusterIP = ofFamily.find(({ kind }) => kind === 'ClusterIP')
    if (clusterIP === undefined) {
      for (const { field, address } of ofFamily) {
        complain(field, `${address} is of a family that the service has no ClusterIP of; it is left out`)
      }
      continue
    }
    for (const port of ports) {
      const claims = claimsOf(port, family, ofFamily).filter((claim) => {
        const taker = takenBy.get(claim.key)
        if (taker === undefined) takenBy.set(claim.key, port)
        // The same port under the same address twice is one frontend, and nothing to complain of.
        else if (taker !== port)
          complain(claim.field, `${claim.key} is port ${portLabel(taker)} of this service already`)
        return taker === undefined
      })
      wanted.push({
        portName: port.name,
        protocol: port.protocol,
        family,
        clusterIP: clusterIP.address,
        claims,
        externallyAccessible: port.nodePort !== 0 || ofFamily.some(({ kind }) => kind !== 'ClusterIP'),
        sourceRanges: ofFamily.some(({ kind }) => kind === 'LoadBalancer') ? ranges[family] : undefined,
      })
    }
  }
  return wanted
}

function portLabel(port: CheckedPort): string {
  return port.name === '' ? `spec.ports[${port.index}]` : JSON.stringify(port.name)
}

function claimsOf(port: CheckedPort, family: Family, addresses: readonly Placed[]): readonly Claim[] {
  const { protocol } = port
  const claims: Claim[] = addresses.map(({ kind, address, field }) => ({
    key: `${address} ${port.port}/${protocol}`,
    frontend: { kind, address, port: port.port },
    field,
  }))
  if (port.nodePort !== 0) {
    claims.push({
      key: `${family} node port ${port.nodePort}/${protocol}`,
      frontend: { kind: 'NodePort', address: undefined, port: port.nodePort },
      field: `spec.ports[${port.index}].nodePort`,
    })
  }
  return claims
}

function readAffinity(service: Service, complain: Complain): number {
  if (service.sessionAffinity !== 'ClientIP') return 0
  const seconds = service.sessionAffinityTimeoutSeconds
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= AFFINITY_SECONDS_MAX) return seconds
  complain(
    'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
    `${seconds} is not from 1 to ${AFFINITY_SECONDS_MAX}; ${AFFINITY_SECONDS_DEFAULT} is used`,
  )
  return AFFINITY_SECONDS_DEFAULT
}

function readScheduler(service: Service, complain: Complain): Scheduler | undefined {
  const wanted = service.annotations[SCHEDULER_ANNOTATION]
  if (wanted === undefined) return undefined
  const field = `metadata.annotations[${SCHEDULER_ANNOTATION}]`
  if (isScheduler(wanted)) return wanted
  const known = SCHEDULERS.join(', ')
  complain(field, `${JSON.stringify(wanted)} is no scheduler; the default is used; there are ${known}`)
  return undefined
}

function readWeights(service: Service, complain: Complain): Weights {
  const text = service.annotations[WEIGHTS_ANNOTATION]
  const field = `metadata.annotations[${WEIGHTS_ANNOTATION}]`
  return text === undefined ? [] : parseWeights(text, (message) => complain(field, message))
}

function readKernelSockets(service: Service, complain: Complain): boolean {
  const text = service.annotations[KERNEL_SOCKETS_ANNOTATION]
  if (text === undefined || text === 'true' || text === 'false') return text === 'true'
  const field = `metadata.annotations[${KERNEL_SOCKETS_ANNOTATION}]`
  complain(field, `${JSON.stringify(text)} is not true or false: it says nothing`)
  return false
}
