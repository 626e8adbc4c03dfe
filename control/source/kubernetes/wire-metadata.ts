/** ObjectMeta in protobuf. Field numbers are those of k8s.io/apimachinery `meta/v1` generated.proto. */

import type { Kind } from '../source.ts'
import { INITIAL_EVENTS_END, isKeptAnnotation, isKeptLabel, keyOf } from './items.ts'
import { atEnd, chunk, message, type Reader, skip, varint } from './wire.ts'

const NAME = chunk(1)
const NAMESPACE = chunk(3)
const RESOURCE_VERSION = chunk(6)
const CREATION_TIMESTAMP = chunk(8)
const LABELS = chunk(11)
const ANNOTATIONS = chunk(12)
const ENTRY_KEY = chunk(1)
const ENTRY_VALUE = chunk(2)
const TIME_SECONDS = varint(1)

/** What is read of an object's metadata. */
export interface Metadata {
  namespace: string
  name: string
  version: string
  /** RFC 3339 with seconds, as JSON has it; empty when there is none. Read for Services only. */
  creationTimestamp: string
  /** Those that are kept, see `isKeptLabel`. */
  labels: Readonly<Record<string, string>>
  annotations: Readonly<Record<string, string>>
  endsInitialEvents: boolean
}

const NO_ENTRIES: Readonly<Record<string, string>> = Object.freeze({})

/** The metadata of an object without any. */
export function noMetadata(): Metadata {
  return {
    namespace: '',
    name: '',
    version: '',
    creationTimestamp: '',
    labels: NO_ENTRIES,
    annotations: NO_ENTRIES,
    endsInitialEvents: false,
  }
}

/** Undefined if there is no name. */
export function keyOfMetadata({ namespace, name }: Metadata): string | undefined {
  return name === '' ? undefined : keyOf(namespace, name)
}

/** Fills in what is read, bit by bit: what was read before something garbled stays. */
export function readMetadata(reader: Reader, kind: Kind, into: Metadata): void {
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === NAME) into.name = reader.string()
    else if (tag === NAMESPACE) into.namespace = reader.string()
    else if (tag === RESOURCE_VERSION) into.version = reader.string()
    else if (tag === CREATION_TIMESTAMP && kind === 'Service')
      into.creationTimestamp = message(reader, readTime)
    else if (tag === LABELS)
      into.labels = withEntry(
        into.labels,
        message(reader, (inner) => readEntry(inner, (name) => isKeptLabel(kind, name))),
      )
    else if (tag === ANNOTATIONS) {
      const entry = message(reader, (inner) =>
        readEntry(inner, (name) => name === INITIAL_EVENTS_END || isKeptAnnotation(kind, name)),
      )
      if (entry?.[0] === INITIAL_EVENTS_END) into.endsInitialEvents = entry[1] === 'true'
      else into.annotations = withEntry(into.annotations, entry)
    } else skip(reader, tag)
  }
}

type Entry = readonly [name: string, value: string]

/** Undefined if it is not kept. */
function readEntry(reader: Reader, isKept: (name: string) => boolean): Entry | undefined {
  let name = ''
  let value = ''
  let kept = true
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === ENTRY_KEY) {
      name = reader.string()
      kept = isKept(name)
    } else if (tag === ENTRY_VALUE && kept) value = reader.string()
    else skip(reader, tag)
  }
  return kept ? [name, value] : undefined
}

function withEntry(
  entries: Readonly<Record<string, string>>,
  entry: Entry | undefined,
): Readonly<Record<string, string>> {
  return entry === undefined ? entries : { ...entries, [entry[0]]: entry[1] }
}

function readTime(reader: Reader): string {
  let seconds: number | undefined
  while (!atEnd(reader)) {
    const tag = reader.tag()
    if (tag === TIME_SECONDS) seconds = Number(reader.int64())
    else skip(reader, tag)
  }
  return seconds === undefined ? '' : new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
}
