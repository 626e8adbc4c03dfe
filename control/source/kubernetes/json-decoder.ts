/** What the API server answers in JSON: for servers, or what stands in front of them, that refuse protobuf. */

import type { EndpointSlice, Service } from '../../model/types.ts'
import { Fields } from '../fields.ts'
import {
  type ObjectName,
  readNamespace,
  readNode,
  readPod,
  readService,
  readServiceCIDR,
  readSlice,
} from '../objects.ts'
import type { Kind } from '../source.ts'
import {
  type ApiObject,
  type ApiStatus,
  type Decoder,
  garbage,
  INITIAL_EVENTS_END,
  type Item,
  isEventType,
  isKeptAnnotation,
  isKeptLabel,
  keyOf,
  type ListPage,
  nameless,
} from './items.ts'
import { NONE, type Sharing } from './sharing.ts'

/** What is read of an object before its fields. */
interface Identity extends ObjectName {
  readonly version: string
}

const NOBODY: Identity = { namespace: '', name: '', version: '' }

/** Reads one kind of objects. */
export class JsonDecoder implements Decoder {
  readonly #kind: Kind
  readonly #sharing: Sharing

  constructor(kind: Kind, sharing: Sharing) {
    this.#kind = kind
    this.#sharing = sharing
  }

  list(body: Buffer): ListPage {
    const fields = new Fields(JSON.parse(body.toString()), [])
    const kind = fields.text('kind', '')
    if (kind !== `${this.#kind}List`) throw new Error(`a ${kind} is not a ${this.#kind}List`)
    const metadata = fields.child('metadata')
    const items = fields.list('items')
    return {
      version: metadata.text('resourceVersion', ''),
      continueToken: metadata.text('continue', ''),
      items: this.#items(items),
    }
  }

  *#items(values: readonly unknown[]): Iterable<Item> {
    for (const value of values) yield this.#item((readIdentity) => this.#object(value, readIdentity))
  }

  event(frame: Buffer): Item {
    return this.#item((readIdentity) => {
      const event = new Fields(JSON.parse(frame.toString()), [])
      const type = event.requiredText('type')
      if (!isEventType(type)) return { type: 'unknown', event: type }
      const value = event.value('object')
      const object = new Fields(value, [])
      if (type === 'ERROR') return { type: 'error', status: readStatus(object) }
      const kind = object.text('kind', '')
      if (kind !== this.#kind) throw new Error(`a ${kind} is not a ${this.#kind}`)
      if (type === 'ADDED' || type === 'MODIFIED') return this.#object(value, readIdentity)
      if (type === 'DELETED') {
        const identity = readIdentity(object)
        return { type: 'gone', key: requiredKey(identity), version: identity.version }
      }
      const metadata = object.child('metadata')
      const ends = metadata.child('annotations').text(INITIAL_EVENTS_END, '') === 'true'
      return { type: 'bookmark', version: metadata.text('resourceVersion', ''), endsInitialEvents: ends }
    })
  }

  status(body: Buffer): ApiStatus | undefined {
    try {
      const fields = new Fields(JSON.parse(body.toString()), [])
      return fields.text('kind', '') === 'Status' ? readStatus(fields) : undefined
    } catch {
      return undefined
    }
  }

  /** What `read` makes of a value, or garbage under the name that it has read until then. */
  #item(read: (readIdentity: (fields: Fields) => Identity) => Item): Item {
    let identity = NOBODY
    try {
      return read((fields) => {
        identity = identityOf(fields)
        return identity
      })
    } catch (error) {
      const { namespace, name, version } = identity
      const key = name === '' ? undefined : keyOf(namespace, name)
      return garbage(this.#kind, key, version, error)
    }
  }

  #object(value: unknown, readIdentity: (fields: Fields) => Identity): Item {
    const fields = new Fields(value, [])
    const identity = readIdentity(fields)
    const key = requiredKey(identity)
    return { type: 'object', key, version: identity.version, object: this.#read(fields, identity) }
  }

  #read(fields: Fields, identity: ObjectName): ApiObject {
    switch (this.#kind) {
      case 'Service':
        return compactService(readService(fields, identity), this.#sharing)
      case 'EndpointSlice':
        return compactSlice(readSlice(fields, identity), this.#sharing)
      case 'Node':
        return readNode(fields, identity)
      case 'ServiceCIDR':
        return readServiceCIDR(fields, identity.name)
      case 'Pod':
        return withKeptAnnotations('Pod', readPod(fields, identity))
      case 'Namespace':
        return withKeptAnnotations('Namespace', readNamespace(fields, identity.name))
    }
  }
}

function identityOf(fields: Fields): Identity {
  const metadata = fields.child('metadata')
  return {
    namespace: metadata.text('namespace', ''),
    name: metadata.text('name', ''),
    version: metadata.text('resourceVersion', ''),
  }
}

function requiredKey({ namespace, name }: ObjectName): string {
  if (name === '') throw nameless()
  return keyOf(namespace, name)
}

/** The same, with what nobody reads left out and what is equal shared. */
function compactService(service: Service, sharing: Sharing): Service {
  return {
    ...service,
    namespace: sharing.text(service.namespace),
    creationTimestamp: sharing.text(service.creationTimestamp),
    labels: keep(service.labels, (name) => isKeptLabel('Service', name)),
    annotations: keep(service.annotations, (name) => isKeptAnnotation('Service', name)),
    externalIPs: orNone(service.externalIPs),
    loadBalancerIngress: orNone(service.loadBalancerIngress),
    loadBalancerSourceRanges: sharing.texts(service.loadBalancerSourceRanges),
    ports: sharing.servicePorts(service.ports),
  }
}

/** See `compactService`. */
function compactSlice(slice: EndpointSlice, sharing: Sharing): EndpointSlice {
  return {
    ...slice,
    namespace: sharing.text(slice.namespace),
    ports: sharing.endpointPorts(slice.ports),
    endpoints: slice.endpoints.map((endpoint) => ({
      ...endpoint,
      nodeName: endpoint.nodeName === undefined ? undefined : sharing.text(endpoint.nodeName),
      zoneHints: sharing.texts(endpoint.zoneHints),
      nodeHints: sharing.texts(endpoint.nodeHints),
    })),
  }
}

function withKeptAnnotations<T extends Pick<Service, 'annotations'>>(kind: Kind, object: T): T {
  return { ...object, annotations: keep(object.annotations, (name) => isKeptAnnotation(kind, name)) }
}

function keep(
  texts: Readonly<Record<string, string>>,
  isKept: (name: string) => boolean,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(texts).filter(([name]) => isKept(name)))
}

function orNone<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NONE : list
}

function readStatus(fields: Fields): ApiStatus {
  return {
    code: fields.integer('code', 0),
    reason: fields.text('reason', ''),
    message: fields.text('message', ''),
    causes: fields
      .child('details')
      .children('causes')
      .map((cause) => cause.text('reason', '')),
  }
}
