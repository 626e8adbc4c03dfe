/**
 * What the API server answers in protobuf. An object is the magic `k8s\0` and a `runtime.Unknown` that wraps it; field
 * numbers are those of k8s.io/apimachinery: `runtime` and `meta/v1` generated.proto.
 */

import type { Kind } from '../source.ts'
import {
  type ApiObject,
  type ApiStatus,
  type Decoder,
  garbage,
  type Item,
  isEventType,
  type ListPage,
  nameless,
} from './items.ts'
import type { Sharing } from './sharing.ts'
import { atEnd, chunk, enter, message, type Reader, readerOf, skip, textInside, varint } from './wire.ts'
import { keyOfMetadata, type Metadata, noMetadata, readMetadata } from './wire-metadata.ts'
import { readNodeMessage, readServiceCIDRMessage, readSliceMessage } from './wire-objects.ts'
import { readServiceMessage } from './wire-service.ts'

/** The first bytes of whatever is encoded in protobuf. */
const MAGIC = Buffer.from('k8s\0')

const UNKNOWN_TYPE_META = chunk(1)
const UNKNOWN_RAW = chunk(2)
const TYPE_META_KIND_FIELD = 2

const EVENT_TYPE = chunk(1)
const EVENT_OBJECT = chunk(2)
const RAW_EXTENSION_RAW = chunk(1)

/** Of every object. */
const OBJECT_METADATA = chunk(1)

const LIST_METADATA = chunk(1)
const LIST_ITEMS = chunk(2)
const LIST_META_RESOURCE_VERSION = chunk(2)
const LIST_META_CONTINUE = chunk(3)

const STATUS_MESSAGE = chunk(3)
const STATUS_REASON = chunk(4)
const STATUS_DETAILS = chunk(5)
const STATUS_CODE = varint(6)
const DETAILS_CAUSES = chunk(4)
const CAUSE_REASON_FIELD = 1

/** Kinds that are read in protobuf. Of the others there are few, and their JSON does as well. */
export type ProtobufKind = Exclude<Kind, 'Pod' | 'Namespace'>

/** Reads one kind of objects. */
export class ProtobufDecoder implements Decoder {
  readonly #kind: ProtobufKind
  readonly #sharing: Sharing

  constructor(kind: ProtobufKind, sharing: Sharing) {
    this.#kind = kind
    this.#sharing = sharing
  }

  list(body: Buffer): ListPage {
    const reader = readerOf(body)
    const kind = unwrap(reader)
    if (kind !== `${this.#kind}List`) throw new Error(`a ${kind} is not a ${this.#kind}List`)
    let meta: ListMeta = { version: '', continueToken: '' }
    const places: number[] = []
    while (!atEnd(reader)) {
      const tag = reader.tag()
      if (tag === LIST_METADATA) meta = message(reader, readListMeta)
      else {
        if (tag === LIST_ITEMS) places.push(reader.pos)
        skip(reader, tag)
      }
    }
    return { ...meta, items: this.#items(reader, places) }
  }

  *#items(reader: Reader, places: readonly number[]): Iterable<Item> {
    const listEnd = reader.len
    for (const place of places) {
      reader.pos = place
      reader.len = listEnd
      enter(reader)
      yield this.#object(reader)
    }
  }

  event(frame: Buffer): Item {
    const metadata = noMetadata()
    try {
      const reader = readerOf(frame)
      const type = readEvent(reader)
      if (!isEventType(type)) return { type: 'unknown', event: type }
      const kind = unwrap(reader)
      if (type === 'ERROR') return { type: 'error', status: readStatus(reader) }
      if (kind !== this.#kind) throw new Error(`a ${kind} is not a ${this.#kind}`)
      if (type === 'ADDED' || type === 'MODIFIED') return this.#object(reader)
      readMetadataAlone(reader, this.#kind, metadata)
      return plainItem(type, metadata)
    } catch (error) {
      return this.#garbage(error, metadata)
    }
  }

  status(body: Buffer): ApiStatus | undefined {
    try {
      const reader = readerOf(body)
      return unwrap(reader) === 'Status' ? readStatus(reader) : undefined
    } catch {
      return undefined
    }
  }

  /** The object that the reader has been narrowed to. */
  #object(reader: Reader): Item {
    const metadata = noMetadata()
    try {
      const object = this.#read(reader, metadata)
      const key = keyOfMetadata(metadata)
      if (key === undefined) throw nameless()
      return { type: 'object', key, version: metadata.version, object }
    } catch (error) {
      return this.#garbage(error, metadata)
    }
  }

  #read(reader: Reader, metadata: Metadata): ApiObject {
    switch (this.#kind) {
      case 'Service':
        return readServiceMessage(reader, metadata, this.#sharing)
      case 'EndpointSlice':
        return readSliceMessage(reader, metadata, this.#sharing)
      case 'Node':
        return readNodeMessage(reader, metadata)
      case 'ServiceCIDR':
        return readServiceCIDRMessage(reader, metadata)
    }
  }

  #garbage(error: unknown, metadata: Metadata): Item {
    return garbage(this.#kind, keyOfMetadata(metadata), metadata.version, error)
  }
}

/** Narrows the reader to the object. Returns its kind as the server names it, which of an item of a list it does not. */
function unwrap(reader: Reader): string {
  for (const byte of MAGIC) {
    if (atEnd(reader) || reader.buf[reader.pos++] !== byte)
      throw new Error('it does not begin as protobuf does')
  }
  let kind = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === UNKNOWN_TYPE_META) kind = textInside(reader, TYPE_META_KIND_FIELD)
    else if (tag === UNKNOWN_RAW) {
      enter(reader)
      return kind
    } else skip(reader, tag)
  }
  throw new Error('it has no content')
}

/** Narrows the reader to the wrapped object of an event. Returns the type of the event, which comes before it. */
function readEvent(reader: Reader): string {
  let type = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === EVENT_TYPE) type = reader.string()
    else if (tag === EVENT_OBJECT) {
      enter(reader)
      enterRaw(reader)
      return type
    } else skip(reader, tag)
  }
  throw new Error('an event without an object')
}

function enterRaw(reader: Reader): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === RAW_EXTENSION_RAW) {
      enter(reader)
      return
    }
    skip(reader, tag)
  }
  throw new Error('an event without an object')
}

/** All that matters of an object that is gone, which may be all that there is, and of a bookmark. */
function readMetadataAlone(reader: Reader, kind: Kind, into: Metadata): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === OBJECT_METADATA) {
      message(reader, (inner) => readMetadata(inner, kind, into))
      return
    }
    skip(reader, tag)
  }
}

function plainItem(type: 'DELETED' | 'BOOKMARK', metadata: Metadata): Item {
  const { version, endsInitialEvents } = metadata
  if (type === 'BOOKMARK') return { type: 'bookmark', version, endsInitialEvents }
  const key = keyOfMetadata(metadata)
  if (key === undefined) throw nameless()
  return { type: 'gone', key, version }
}

type ListMeta = Pick<ListPage, 'version' | 'continueToken'>

function readListMeta(reader: Reader): ListMeta {
  let version = ''
  let continueToken = ''
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === LIST_META_RESOURCE_VERSION) version = reader.string()
    else if (tag === LIST_META_CONTINUE) continueToken = reader.string()
    else skip(reader, tag)
  }
  return { version, continueToken }
}

function readStatus(reader: Reader): ApiStatus {
  let code = 0
  let reason = ''
  let text = ''
  let causes: readonly string[] = []
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === STATUS_CODE) code = reader.int32()
    else if (tag === STATUS_REASON) reason = reader.string()
    else if (tag === STATUS_MESSAGE) text = reader.string()
    else if (tag === STATUS_DETAILS) causes = message(reader, readCauses)
    else skip(reader, tag)
  }
  return { code, reason, message: text, causes }
}

function readCauses(reader: Reader): readonly string[] {
  const causes: string[] = []
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === DETAILS_CAUSES) causes.push(textInside(reader, CAUSE_REASON_FIELD))
    else skip(reader, tag)
  }
  return causes
}
