/** From what the sources know to what the kernel should do: all of it, or only what a change concerns. */

import { cidrContains, parseAddress, parseCidr } from './address.ts'
import { withChanges } from './changed-map.ts'
import { type Choices, type PolicyFacts, sharedChoices } from './choices.ts'
import { type Claims, clusterIPOwner, type FrontendKey, noClaims, updateClaims } from './claims.ts'
import { type CandidatesByPort, mergeSlices, portKey, selectEndpoints } from './endpoints.ts'
import { equalValues, keepParts } from './equal.ts'
import { healthCheckOf } from './health-checks.ts'
import { WEIGHTED_SCHEDULERS } from './schedulers.ts'
import {
  type Claim,
  readService,
  SCHEDULER_ANNOTATION,
  type WantedPort,
  type WantedService,
} from './service.ts'
import { noServiceCIDRs, readServiceCIDRs, type ServiceCIDRs } from './service-cidrs.ts'
import { DEFAULT_MODEL_SETTINGS, type ModelSettings } from './settings.ts'
import { trimmed } from './trim.ts'
import type {
  ClusterSnapshot,
  DesiredState,
  Family,
  Frontend,
  HealthCheck,
  Node,
  NodeFacts,
  Problem,
  Scheduler,
  Service,
  ServiceKey,
  ServicePort,
} from './types.ts'
import { WEIGHTS_ANNOTATION, weighsUnequally } from './weights.ts'

/** A desired state and what the next one is computed from. Immutable. */
export interface Model {
  readonly desired: DesiredState
  /** All that could not be used: ServiceCIDRs, then in the order of the services' keys. */
  readonly problems: readonly Problem[]
  /** The services whose ports are not those of the model before, those that are gone included. */
  readonly changed: ReadonlySet<ServiceKey>
  /** Which service has which frontend: what makes one service's change another one's too. */
  readonly claims: Claims
  /** Only services that have some. */
  readonly problemsByService: ReadonlyMap<ServiceKey, readonly Problem[]>
  readonly serviceCIDRs: ServiceCIDRs
}

/** The model of a cluster without services: where an incremental computation begins. */
export const emptyModel: Model = {
  desired: { services: new Map(), healthChecks: new Map(), serviceCIDRs: [] },
  problems: [],
  changed: new Set(),
  claims: noClaims,
  problemsByService: new Map(),
  serviceCIDRs: noServiceCIDRs,
}

/** Label of a Node that names its zone. */
const ZONE_LABEL = 'topology.kubernetes.io/zone'

/**
 * What the model must know of this node. `node` is its object, undefined while the source has none; `addresses` are those
 * of its interfaces.
 */
export function nodeFacts(
  name: string,
  node: Node | undefined,
  addresses: readonly string[],
  settings = DEFAULT_MODEL_SETTINGS,
): NodeFacts {
  return {
    name,
    zone: node?.labels[ZONE_LABEL] ?? '',
    ips: nodeIPs(node),
    addresses,
    podCIDRs: node?.podCIDRs ?? [],
    settings,
  }
}

/** Of each family the first InternalIP, or else the first ExternalIP: what kube-proxy takes for the node's. */
function nodeIPs(node: Node | undefined): readonly string[] {
  const ips = new Map<Family, string>()
  for (const text of [...(node?.internalIPs ?? []), ...(node?.externalIPs ?? [])]) {
    const address = parseAddress(text)
    if (address !== undefined && !ips.has(address.family)) ips.set(address.family, address.text)
  }
  return [...ips.values()]
}

/** The meaning of the whole cluster for one node. Everything in `changed` is new. */
export function desiredState(cluster: ClusterSnapshot, node: NodeFacts): Model {
  return updateDesired(emptyModel, cluster, node, new Set(cluster.services.keys()))
}

/**
 * The same result as `desiredState`, from an earlier one: only the services in `changed` are computed, and those that
 * stand in line with them for a frontend. `changed` must name every service that has come, gone or changed, itself or
 * in its slices, since `previous`; after a change of `node`, all services of `previous` and of `cluster`.
 * A service that comes out as it was keeps the identity of its list, and an unchanged port that of its object.
 */
export function updateDesired(
  previous: Model,
  cluster: ClusterSnapshot,
  node: NodeFacts,
  changed: ReadonlySet<ServiceKey>,
): Model {
  const read = new Map<ServiceKey, WantedService | undefined>()
  for (const key of changed) read.set(key, readOne(cluster, key))
  const { claims, touched } = updateClaims(previous.claims, new Map(Array.from(read, claimsOfService)))
  for (const key of touched) if (!read.has(key)) read.set(key, readOne(cluster, key))

  const shared: Shared = { claims, localAddresses: new Set(node.addresses), choices: sharedChoices(node) }

  const services = new Map<ServiceKey, readonly ServicePort[] | undefined>()
  const healthChecks = new Map<ServiceKey, HealthCheck | undefined>()
  const problems = new Map<ServiceKey, readonly Problem[] | undefined>()
  for (const [key, wanted] of read) {
    const computed = computeService(cluster, node, shared, key, wanted)
    const before = previous.desired.services.get(key)
    const ports = keepIdentity(before, computed.ports)
    if (ports !== before) services.set(key, ports)
    const { healthCheck } = computed
    if (!equalValues(healthCheck, previous.desired.healthChecks.get(key))) healthChecks.set(key, healthCheck)
    const problemsNow = computed.problems.length > 0 ? computed.problems : undefined
    if (!equalValues(problemsNow, previous.problemsByService.get(key))) problems.set(key, problemsNow)
  }
  const problemsByService = withChanges(previous.problemsByService, problems)
  const serviceCIDRs = equalValues(previous.serviceCIDRs.texts, cluster.serviceCIDRs)
    ? previous.serviceCIDRs
    : readServiceCIDRs(cluster.serviceCIDRs)
  const isSame = serviceCIDRs === previous.serviceCIDRs
  return {
    desired:
      services.size === 0 && healthChecks.size === 0 && isSame
        ? previous.desired
        : {
            services: withChanges(previous.desired.services, services),
            healthChecks: withChanges(previous.desired.healthChecks, healthChecks),
            serviceCIDRs: serviceCIDRs.cidrs,
          },
    problems:
      problems.size === 0 && isSame
        ? previous.problems
        : [...serviceCIDRs.problems, ...inKeyOrder(problemsByService)],
    changed: new Set(services.keys()),
    claims,
    problemsByService,
    serviceCIDRs,
  }
}

function readOne(cluster: ClusterSnapshot, key: ServiceKey): WantedService | undefined {
  const service = cluster.services.get(key)
  return service && readService(service)
}

function claimsOfService([key, wanted]: readonly [ServiceKey, WantedService | undefined]) {
  if (wanted === undefined) return [key, undefined] as const
  const frontends = new Set<FrontendKey>()
  const clusterIPs = new Set<string>()
  for (const { claims, clusterIP } of wanted.ports) {
    clusterIPs.add(clusterIP)
    for (const {
      key: frontend,
      frontend: { address },
    } of claims) {
      frontends.add(frontend)
      if (address !== undefined) frontends.add(address)
    }
  }
  const { createdAt } = wanted
  return [
    key,
    { createdAt, frontends: trimmed([...frontends]), clusterIPs: trimmed([...clusterIPs]) },
  ] as const
}

function inKeyOrder(problemsByService: ReadonlyMap<ServiceKey, readonly Problem[]>): readonly Problem[] {
  return [...problemsByService].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, problems]) => problems)
}

/** A service without ports is no service to a dataplane: undefined. */
function keepIdentity(
  before: readonly ServicePort[] | undefined,
  after: readonly ServicePort[],
): readonly ServicePort[] | undefined {
  if (after.length === 0) return undefined
  return before === undefined ? after : keepParts(before, after)
}

/** Whose an address or a frontend is. */
interface Owners {
  readonly claims: Claims
  /** Those of the node. */
  readonly localAddresses: ReadonlySet<string>
}

/** What all services of one computation share. */
interface Shared extends Owners {
  readonly choices: (facts: PolicyFacts, family: Family) => Choices
}

/** What comes of one service. */
interface Computed {
  readonly ports: readonly ServicePort[]
  readonly healthCheck: HealthCheck | undefined
  readonly problems: readonly Problem[]
}

function computeService(
  cluster: ClusterSnapshot,
  node: NodeFacts,
  shared: Shared,
  key: ServiceKey,
  wanted: WantedService | undefined,
): Computed {
  const service = cluster.services.get(key)
  if (service === undefined || wanted === undefined) {
    return { ports: [], healthCheck: undefined, problems: [] }
  }
  const problems = [...wanted.problems]
  const scheduler = grantedScheduler(key, wanted, node.settings, problems)
  const families = new Set(wanted.ports.map(({ family }) => family))
  const candidates = mergeSlices(cluster.slices.get(key) ?? [], families, node.name, problems)
  const ports = wanted.ports.map((port) => {
    const frontends = grantedFrontends(key, port, shared, problems)
    return computePort(service, wanted, port, {
      candidates,
      node,
      frontends,
      choices: shared.choices,
      scheduler,
    })
  })
  const { healthCheckNodePort: port } = wanted
  const healthCheck = port === 0 || ports.length === 0 ? undefined : healthCheckOf(service, port, candidates)
  return { ports, healthCheck, problems }
}

/**
 * The frontends that this service really has: no other one stands before it in line, and none is somebody else's. A
 * ClusterIP that is assigned to an interface of the node belongs to whoever did that, as NodeLocal DNSCache does.
 */
function grantedFrontends(
  key: ServiceKey,
  port: WantedPort,
  { claims, localAddresses }: Owners,
  problems: Problem[],
): readonly Frontend[] {
  const granted = port.claims.flatMap((claim) => {
    const { kind, address = '' } = claim.frontend
    if (kind === 'ClusterIP' && localAddresses.has(address)) return []
    const reason = reasonToRefuse(key, claim, claims)
    if (reason === undefined) return [claim.frontend]
    problems.push({ object: `Service ${key}`, field: claim.field, message: reason })
    return []
  })
  return trimmed(granted)
}

/** The scheduler that a service asks for, where the dataplane has it. */
function grantedScheduler(
  key: ServiceKey,
  { scheduler: asked, weights }: Pick<WantedService, 'scheduler' | 'weights'>,
  { scheduler: usual, schedulers }: Pick<ModelSettings, 'scheduler' | 'schedulers'>,
  problems: Problem[],
): Scheduler {
  const complain = (annotation: string, message: string) =>
    problems.push({ object: `Service ${key}`, field: `metadata.annotations[${annotation}]`, message })
  const has = asked === undefined || schedulers.includes(asked)
  const granted = has ? (asked ?? usual) : usual
  if (!has)
    complain(
      SCHEDULER_ANNOTATION,
      `the dataplane in use has no ${asked}, only ${schedulers.join(', ')}; ${usual} is used`,
    )
  if (weighsUnequally(weights) && !WEIGHTED_SCHEDULERS.includes(granted))
    complain(
      WEIGHTS_ANNOTATION,
      `${granted} knows no weight but 0, which drains; those that do are ${WEIGHTED_SCHEDULERS.join(', ')}`,
    )
  return granted
}

function reasonToRefuse(key: ServiceKey, claim: Claim, claims: Claims): string | undefined {
  const { kind, address } = claim.frontend
  const owner = address === undefined || kind === 'ClusterIP' ? undefined : clusterIPOwner(claims, address)
  if (owner !== undefined && owner !== key)
    return `${address} is the ClusterIP of Service ${owner}; it is left out`
  const first = claims.byFrontend.get(claim.key)?.[0]
  if (first === key) return undefined
  return `${claim.key} belongs to Service ${first}, which comes before by age and name; it is left out here`
}

/** What a service port is computed from, besides the service. */
interface PortInputs {
  readonly candidates: CandidatesByPort
  readonly node: NodeFacts
  readonly frontends: readonly Frontend[]
  readonly choices: Shared['choices']
  readonly scheduler: Scheduler
}

/** Named field by field: spread together the objects would take half as much memory again. */
function computePort(
  { namespace, name }: Service,
  wanted: WantedService,
  port: WantedPort,
  { candidates, node, frontends, choices, scheduler }: PortInputs,
): ServicePort {
  const externalLocal = wanted.externalLocal && port.externallyAccessible
  const endpoints = candidates.get(portKey(port.family, port.protocol, port.portName)) ?? []
  const wantLocal = wanted.internalLocal || externalLocal
  const { backends, cluster, local, anyUsable } = selectEndpoints(endpoints, node, wantLocal, wanted.weights)
  return {
    namespace,
    name,
    portName: port.portName,
    protocol: port.protocol,
    family: port.family,
    clusterIP: port.clusterIP,
    frontends,
    backends,
    cluster,
    local,
    choices: choices({ internalLocal: wanted.internalLocal, externalLocal, anyUsable }, port.family),
    affinitySeconds: wanted.affinitySeconds,
    ...rangesFor(port, node),
    scheduler,
    kernelSockets: wanted.kernelSockets,
  }
}

/**
 * Where this node itself is among the allowed sources, so are the service's load-balancer addresses: a connection from
 * the node to such an address, when that is bound to an interface of the node, has it as its source too.
 */
function rangesFor(port: WantedPort, node: NodeFacts): Pick<ServicePort, 'sourceRanges' | 'nodeAllowed'> {
  const { sourceRanges } = port
  if (sourceRanges === undefined) return { sourceRanges, nodeAllowed: true }
  const nodeAllowed = sourceRanges.some((range) => {
    const cidr = parseCidr(range)
    return cidr !== undefined && node.ips.some((address) => cidrContains(cidr, address))
  })
  if (!nodeAllowed) return { sourceRanges, nodeAllowed }
  const length = port.family === 'ipv4' ? 32 : 128
  const own = port.claims.flatMap(({ frontend }) =>
    frontend.kind === 'LoadBalancer' ? [`${frontend.address}/${length}`] : [],
  )
  return {
    sourceRanges: [...sourceRanges, ...own.filter((range) => !sourceRanges.includes(range))],
    nodeAllowed,
  }
}
