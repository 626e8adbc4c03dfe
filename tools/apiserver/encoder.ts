/** Objects, lists and events as bytes, in both encodings of the API; spoilt ones too. */

import { type ApiObject, type JsonObject, KINDS, keyOf, type Resource } from './kinds.ts'
import { encodeFrame, encodeList, encodeObject, encodeUnknown } from './protobuf.ts'

export type Encoding = 'json' | 'protobuf'

/** How an object is spoilt: its metadata can be read and nothing else, or nothing at all. */
export type Garbage = 'fields' | 'everything'

export type EventType = 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'

/** `metav1.Status`, without the fields that are always the same. */
export interface Status {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly retryAfterSeconds?: number
  /** `details.causes[].reason`. */
  readonly causes?: readonly string[]
}

export const CONTENT_TYPES: Readonly<Record<Encoding, string>> = {
  json: 'application/json',
  protobuf: 'application/vnd.kubernetes.protobuf',
}

export class Encoder {
  readonly #garbled = new Map<string, Garbage>()
  /** Objects are immutable, and the same ones are asked for again and again. */
  readonly #encoded = { json: new WeakMap<ApiObject, Buffer>(), protobuf: new WeakMap<ApiObject, Buffer>() }

  /** From now on this object is sent spoilt, until that is undone. */
  garble(resource: Resource, key: string, garbage: Garbage): Disposable {
    this.#garbled.set(`${resource} ${key}`, garbage)
    return { [Symbol.dispose]: () => this.#garbled.delete(`${resource} ${key}`) }
  }

  list(resource: Resource, metadata: JsonObject, objects: readonly ApiObject[], encoding: Encoding): Buffer {
    const { kind, apiVersion } = KINDS[resource]
    const items = objects.map((object) => this.#item(resource, object, encoding))
    if (encoding === 'protobuf') return encodeUnknown(apiVersion, `${kind}List`, encodeList(metadata, items))
    const head = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata, items: [] }).slice(0, -2)
    const parts = items.flatMap((item, i) => (i === 0 ? [item] : [Buffer.from(','), item]))
    return Buffer.concat([Buffer.from(head), ...parts, Buffer.from(']}')])
  }

  /** One object as the answer to a request. */
  object(resource: Resource, object: ApiObject, encoding: Encoding): Buffer {
    const { kind, apiVersion } = KINDS[resource]
    const item = this.#item(resource, object, encoding)
    return encoding === 'protobuf' ? encodeUnknown(apiVersion, kind, item) : item
  }

  /** One line or frame of a watch. */
  event(type: EventType, resource: Resource, object: ApiObject, encoding: Encoding): Buffer {
    const bytes = this.object(resource, object, encoding)
    return encoding === 'protobuf' ? encodeFrame(type, bytes) : line(type, bytes)
  }

  /** A bookmark: an object of which nothing but the version matters. */
  bookmark(
    resource: Resource,
    metadata: { readonly resourceVersion: string } & JsonObject,
    encoding: Encoding,
  ): Buffer {
    const { kind, apiVersion } = KINDS[resource]
    const object = { kind, apiVersion, metadata }
    const bytes =
      encoding === 'protobuf'
        ? encodeUnknown(apiVersion, kind, encodeObject(object))
        : Buffer.from(JSON.stringify(object))
    return encoding === 'protobuf' ? encodeFrame('BOOKMARK', bytes) : line('BOOKMARK', bytes)
  }

  status(status: Status, encoding: Encoding): Buffer {
    const object = statusObject(status)
    if (encoding === 'json') return Buffer.from(JSON.stringify(object))
    return encodeUnknown('v1', 'Status', encodeObject(object))
  }

  statusEvent(status: Status, encoding: Encoding): Buffer {
    const bytes = this.status(status, encoding)
    return encoding === 'protobuf' ? encodeFrame('ERROR', bytes) : line('ERROR', bytes)
  }

  #item(resource: Resource, object: ApiObject, encoding: Encoding): Buffer {
    const garbage = this.#garbled.get(`${resource} ${keyOf(object)}`)
    if (garbage !== undefined) return GARBAGE[encoding](object, garbage)
    const known = this.#encoded[encoding].get(object)
    if (known !== undefined) return known
    const bytes = encoding === 'protobuf' ? encodeObject(object) : Buffer.from(JSON.stringify(object))
    this.#encoded[encoding].set(object, bytes)
    return bytes
  }
}

function line(type: string, object: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), object, Buffer.from('}\n')])
}

function statusObject({ code, reason, message, retryAfterSeconds, causes }: Status): JsonObject {
  const details = {
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(causes === undefined ? {} : { causes: causes.map((cause) => ({ reason: cause })) }),
  }
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason,
    ...(Object.keys(details).length === 0 ? {} : { details }),
    code,
  }
}

const GARBAGE: Readonly<Record<Encoding, (object: ApiObject, garbage: Garbage) => Buffer>> = {
  json: ({ apiVersion, kind, metadata }, garbage) =>
    Buffer.from(
      JSON.stringify(
        garbage === 'everything'
          ? 'not an object'
          : { apiVersion, kind, metadata, spec: 7, endpoints: 'none', ports: true, addressType: [] },
      ),
    ),
  protobuf: (object, garbage) =>
    // The metadata stand first; what stands last is shorter than it says.
    garbage === 'everything' ? Buffer.alloc(16, 0xff) : encodeObject(object).subarray(0, -1),
}
