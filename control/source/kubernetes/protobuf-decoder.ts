/**
 * What the API server answers in protobuf. An object is the magic `k8s\0` and an `Unknown` that wraps it. The messages
 * are those of kubernetes.proto.
 */

import type { Sharing } from '../sharing.ts'
import type { Kind } from '../source.ts'
import {
  readAnyObject,
  readEndpointSlice,
  readList,
  readNamespace,
  readNode,
  readObjectMeta,
  readPod,
  readService,
  readServiceCIDR,
  readStatus as readStatusMessage,
  readUnknown,
  readWatchEvent,
} from './generated.ts'
import { type ApiStatus, type Decoder, type Item, isEventType, type ListPage } from './items.ts'
import { ObjectReader, readStatus } from './object-reader.ts'
import { type Reader, readerOf } from './wire.ts'

/** The first bytes of whatever is encoded in protobuf. */
const MAGIC = Buffer.from('k8s\0')

const MESSAGES: Readonly<Record<Kind, (reader: Reader) => object>> = {
  Service: readService,
  EndpointSlice: readEndpointSlice,
  Node: readNode,
  Pod: readPod,
  Namespace: readNamespace,
  ServiceCIDR: readServiceCIDR,
}

/** Reads one kind of objects. */
export class ProtobufDecoder implements Decoder {
  readonly #objects: ObjectReader
  readonly #readMessage: (reader: Reader) => object

  constructor(kind: Kind, sharing: Sharing) {
    this.#objects = new ObjectReader(kind, sharing)
    this.#readMessage = MESSAGES[kind]
  }

  list(body: Buffer): ListPage {
    const { kind, raw } = unwrap(body)
    this.#objects.expectKind(kind, 'List')
    const { metadata, items } = readList(readerOf(raw))
    return {
      version: metadata?.resourceVersion ?? '',
      continueToken: metadata?.continue ?? '',
      items: this.#items(items ?? []),
    }
  }

  *#items(items: readonly Uint8Array[]): Iterable<Item> {
    for (const raw of items) yield this.#object(raw)
  }

  event(frame: Buffer): Item {
    try {
      const { type, object } = readWatchEvent(readerOf(frame))
      if (!isEventType(type)) return { type: 'unknown', event: type }
      if (object === undefined) throw new Error('an event without an object')
      const { kind, raw } = unwrap(object.raw)
      if (type === 'ERROR') return { type: 'error', status: readStatus(readStatusMessage(readerOf(raw))) }
      this.#objects.expectKind(kind)
      if (type === 'DELETED') return this.#objects.gone(metadataAlone(raw))
      return type === 'BOOKMARK' ? this.#objects.bookmark(metadataAlone(raw)) : this.#object(raw)
    } catch (error) {
      return this.#objects.garbage(undefined, error)
    }
  }

  status(body: Buffer): ApiStatus | undefined {
    try {
      const { kind, raw } = unwrap(body)
      return kind === 'Status' ? readStatus(readStatusMessage(readerOf(raw))) : undefined
    } catch {
      return undefined
    }
  }

  #object(raw: Uint8Array): Item {
    let message: object
    try {
      message = this.#readMessage(readerOf(raw))
    } catch (error) {
      return this.#objects.garbage(metadataIfReadable(raw), error)
    }
    return this.#objects.object(message)
  }
}

/** The object in its envelope, and its kind as the server names it. Throws Error for what is no envelope. */
function unwrap(bytes: Uint8Array): { readonly kind: string; readonly raw: Uint8Array } {
  if (!MAGIC.equals(bytes.subarray(0, MAGIC.length))) throw new Error('it does not begin as protobuf does')
  const { typeMeta, raw } = readUnknown(readerOf(bytes.subarray(MAGIC.length)))
  return { kind: typeMeta?.kind ?? '', raw }
}

/**
 * The metadata of an object, whatever the rest of it is like: of one that is gone nothing else matters. Throws Error for
 * metadata that are garbled themselves.
 */
function metadataAlone(raw: Uint8Array): object {
  const object = { metadata: new Uint8Array() }
  try {
    readAnyObject(readerOf(raw), object)
  } catch {
    // What was read before is in the object.
  }
  return { metadata: readObjectMeta(readerOf(object.metadata)) }
}

function metadataIfReadable(raw: Uint8Array): object | undefined {
  try {
    return metadataAlone(raw)
  } catch {
    return undefined
  }
}
