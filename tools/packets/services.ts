/** Fills the maps of a datapath with services, backends and devices, as the control plane would, in few words. */

import * as layout from '../../control/layout/generated.ts'
import { macBytes, PROTOCOLS, parseEndpoint } from './build.ts'
import type { Datapath } from './datapath.ts'
import { addressIn, cidrIn, type FamilyNumber } from './family.ts'
import { SCTP } from './sctp.ts'

export interface DeviceFields {
  readonly ifindex: number
  readonly class: 'external' | 'pod' | 'tunnel'
  /** Frames to it are for the node; of a bridge port, the bridge's. */
  readonly mac: string
  /** The ifindex of the bridge that it is a port of. */
  readonly bridge?: number
  readonly isolated?: boolean
  readonly isBridge?: boolean
  /** Its clients are internal whatever their addresses; left out: unless the class is external. */
  readonly internal?: boolean
}

export interface BackendFields {
  /** `10.0.0.1:80` */
  readonly endpoint: string
  /** Whether the endpoint is on this node; it is when left out. */
  readonly onNode?: boolean
  /** 1 when left out. */
  readonly weight?: number
}

export interface ServiceFields {
  readonly protocol?: 'tcp' | 'udp' | 'sctp'
  /** `10.96.0.1:80` */
  readonly clusterIp: string
  readonly nodePort?: number
  /** A load-balancer address, at the ClusterIP's port. */
  readonly loadBalancer?: string
  /** An external address, at the ClusterIP's port. */
  readonly externalIp?: string
  /** `address/length`: whom the load-balancer address is open to. */
  readonly sourceRanges?: readonly string[]
  /** `externalTrafficPolicy: Local`: external clients use the backends on this node only. */
  readonly localPolicy?: boolean
  /** Backends of both lists, in their order; of the local list only those on this node. */
  readonly backends?: readonly (string | BackendFields)[]
  readonly affinitySeconds?: number
  /** As whom each class of clients is seen at every frontend; left out: with its own address, if that can be. */
  readonly masquerade?: Partial<Record<'internal' | 'external', keyof typeof layout.masquerade>>
  readonly whenEmpty?: 'reject' | 'drop'
  /** Left out: in turn. */
  readonly scheduler?: keyof typeof layout.scheduler
}

export interface Backend {
  readonly id: number
  readonly endpoint: string
  readonly generation: number
}

export interface Service {
  readonly id: number
  readonly clusterIp: string
  readonly backends: readonly Backend[]
}

/** Gives out ids and slots, and writes what belongs to them. One for a datapath. */
export class ServiceWriter {
  readonly #datapath: Datapath
  #services = 0
  #backends = 0
  #slots = 0
  #generations = 100

  constructor(datapath: Datapath) {
    this.#datapath = datapath
  }

  addDevice(fields: DeviceFields): void {
    const flags =
      (fields.bridge === undefined ? 0 : layout.deviceFlag.BRIDGE_PORT) |
      (fields.isolated ? layout.deviceFlag.ISOLATED : 0) |
      (fields.isBridge ? layout.deviceFlag.BRIDGE : 0) |
      ((fields.internal ?? fields.class !== 'external') ? layout.deviceFlag.INTERNAL : 0)
    const classes = {
      external: layout.deviceClass.EXTERNAL,
      pod: layout.deviceClass.POD,
      tunnel: layout.deviceClass.TUNNEL,
    }
    this.#datapath.devices.set(fields.ifindex, {
      ifindex: fields.ifindex,
      bridge: fields.bridge ?? 0,
      mac: macBytes(fields.mac),
      class: classes[fields.class],
      flags,
    })
  }

  /** Clients with an address in this range are internal, whatever device they are behind. */
  addLocalCidr(text: string): void {
    const [address = '', prefixLength] = cidrIn(this.#datapath.family, text).split('/')
    const bytes = addressIn(this.#datapath.family, address)
    this.#datapath.localCidrs.set({ prefixLength: Number(prefixLength), address: bytes }, 1)
  }

  /** An address of this node that accepts node ports. */
  addNodeAddress(text: string): void {
    const address = addressIn(this.#datapath.family, text)
    this.#datapath.nodeAddresses.set({ address }, { address, flags: layout.nodeAddressFlag.NODE_PORT })
    this.#datapath.setFilterBit('frontend', text)
  }

  addService(fields: ServiceFields): Service {
    const id = ++this.#services
    const { address, port } = parseEndpoint(fields.clusterIp, this.#datapath.family)
    const protocol = fields.protocol === 'sctp' ? SCTP : PROTOCOLS[fields.protocol ?? 'tcp']
    this.#writeService(id, fields, address, protocol)
    const wanted = (fields.backends ?? []).map((each) =>
      typeof each === 'string' ? { endpoint: each, onNode: true } : { onNode: true, ...each },
    )
    const backends = wanted.map((each) => this.#addBackend(id, each))
    this.setList(id, 'CLUSTER', backends)
    this.setList(
      id,
      'LOCAL',
      backends.filter((_, i) => wanted[i]?.onNode),
    )
    this.setSourceRanges(id, fields.sourceRanges)
    this.#writeFrontends(id, fields, address, port, protocol)
    return { id, clusterIp: fields.clusterIp, backends }
  }

  /** Replaces a list of a service by one in fresh slots. */
  setList(service: number, kind: 'CLUSTER' | 'LOCAL', backends: readonly Backend[]): void {
    const first = this.#slots
    for (const { id } of backends) this.#datapath.backendSlots.set(this.#slots++, id)
    const list = service * layout.listKind.COUNT + layout.listKind[kind]
    this.#datapath.lists.set(list, { first, count: backends.length })
  }

  /** Whom the load-balancer address is open to, beside those it is open to already; undefined: everybody. */
  setSourceRanges(id: number, ranges: readonly string[] | undefined): void {
    const service = this.#datapath.services.get(id)
    if (service === undefined) throw new RangeError(`no service ${id}`)
    const flags = ranges === undefined ? 0 : layout.serviceFlag.SOURCE_RANGES
    this.#datapath.services.set(id, { ...service, flags })
    for (const range of ranges ?? [])
      this.#datapath.sourceRanges.set(sourceRangeKey(this.#datapath.family, id, range), 1)
  }

  removeSourceRange(id: number, range: string): void {
    this.#datapath.sourceRanges.delete(sourceRangeKey(this.#datapath.family, id, range))
  }

  /** Takes a backend out of its lists: draining, or gone. */
  retire(backend: Backend, state: 'DRAINING' | 'GONE'): void {
    this.changeBackend(backend, { state: layout.backendState[state], flags: 0 })
  }

  changeBackend({ id }: Backend, change: Partial<layout.Backend4>): void {
    const backend = this.#datapath.backends.get(id)
    if (backend === undefined) throw new RangeError(`no backend ${id}`)
    this.#datapath.backends.set(id, { ...backend, ...change })
  }

  #addBackend(service: number, { endpoint, onNode, weight = 1 }: BackendFields): Backend {
    const id = ++this.#backends
    const generation = ++this.#generations
    const { address, port } = parseEndpoint(endpoint, this.#datapath.family)
    const { IN_CLUSTER, IN_LOCAL, ON_NODE } = layout.backendFlag
    this.#datapath.backends.set(id, {
      address,
      port,
      state: layout.backendState.ACTIVE,
      flags: IN_CLUSTER | (onNode ? IN_LOCAL | ON_NODE : 0),
      service,
      generation,
      weight,
    })
    this.#datapath.setFilterBit('backend', address)
    return { id, endpoint, generation }
  }

  #writeService(id: number, fields: ServiceFields, address: Uint8Array, protocol: number): void {
    const clusterIp = new Uint8Array(16)
    clusterIp.set(address)
    const list = new Uint8Array(8).fill(layout.listKind.CLUSTER)
    const { NODE_PORT, LOAD_BALANCER, EXTERNAL_IP } = layout.frontendKind
    for (const kind of fields.localPolicy ? [NODE_PORT, LOAD_BALANCER, EXTERNAL_IP] : []) {
      list[kind * layout.clientClass.COUNT + layout.clientClass.EXTERNAL] = layout.listKind.LOCAL
    }
    const masquerade = new Uint8Array(8).map((_, rule) => {
      const isExternal = rule % layout.clientClass.COUNT === layout.clientClass.EXTERNAL
      const wanted = fields.masquerade?.[isExternal ? 'external' : 'internal']
      return layout.masquerade[wanted ?? (list[rule] === layout.listKind.LOCAL ? 'NEVER' : 'IF_NEEDED')]
    })
    this.#datapath.services.set(id, {
      list,
      masquerade,
      whenEmpty: new Uint8Array(8).fill(
        fields.whenEmpty === 'drop' ? layout.whenEmpty.DROP : layout.whenEmpty.REJECT,
      ),
      affinitySeconds: fields.affinitySeconds ?? 0,
      flags: 0,
      clusterIp,
      scheduler: layout.scheduler[fields.scheduler ?? 'ROUND_ROBIN'],
      protocol,
      family: this.#datapath.family,
      zero: 0,
      reserved: [0, 0, 0],
    })
  }

  #writeFrontends(
    service: number,
    fields: ServiceFields,
    address: Uint8Array,
    port: number,
    protocol: number,
  ): void {
    const { CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_IP } = layout.frontendKind
    this.#datapath.clusterIps.set({ address }, { address, services: 1 })
    const { family } = this.#datapath
    const bytesOf = (text?: string) => (text === undefined ? undefined : addressIn(family, text))
    const named = [
      [CLUSTER_IP, address],
      [LOAD_BALANCER, bytesOf(fields.loadBalancer)],
      [EXTERNAL_IP, bytesOf(fields.externalIp)],
    ] as const
    for (const [kind, bytes] of named) {
      if (bytes === undefined) continue
      const key = { address: bytes, port, protocol, zero: 0 }
      this.#datapath.frontends.set(key, { key, service, kind, flags: 0, zero: 0 })
      this.#datapath.setFilterBit('frontend', bytes)
    }
    if (fields.nodePort === undefined) return
    const nodePort = { address: new Uint8Array(address.length), port: fields.nodePort, protocol, zero: 0 }
    this.#datapath.nodePorts.set(
      { port: fields.nodePort, protocol, zero: 0 },
      { key: nodePort, service, kind: NODE_PORT, flags: layout.frontendFlag.ON_NODE, zero: 0 },
    )
  }
}

function sourceRangeKey(family: FamilyNumber, service: number, range: string): layout.SourceRangeKey4 {
  const [address = '', length] = cidrIn(family, range).split('/')
  return { prefixLength: 32 + Number(length), service, address: addressIn(family, address) }
}
