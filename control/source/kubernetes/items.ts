/** What lists and watches say, once it is decoded: the same for protobuf and JSON. */

import type { EndpointSlice, Namespace, Node, Pod, Problem, Service, ServiceCIDR } from '../../model/types.ts'
import { FieldError, pathText } from '../fields.ts'
import type { Kind } from '../source.ts'

/** An object of one of the kinds that are read. */
export type ApiObject = Service | EndpointSlice | Node | ServiceCIDR | Pod | Namespace

/** One item of a list, or one event of a watch. */
export type Item =
  /** It is there, as it is now. */
  | { readonly type: 'object'; readonly key: string; readonly version: string; readonly object: ApiObject }
  /** It is gone. */
  | { readonly type: 'gone'; readonly key: string; readonly version: string }
  /** Something that cannot be decoded. The key is undefined if not even that could be read. */
  | {
      readonly type: 'garbage'
      readonly key: string | undefined
      readonly version: string
      readonly problem: Problem
    }
  /** All events before that version have been told. */
  | { readonly type: 'bookmark'; readonly version: string; readonly endsInitialEvents: boolean }
  /** The server cannot go on with the watch. */
  | { readonly type: 'error'; readonly status: ApiStatus }
  /** An event of a type that is not known. */
  | { readonly type: 'unknown'; readonly event: string }

/** meta/v1 Status: how the API says that something is wrong. Empty where the server does not say. */
export interface ApiStatus {
  readonly code: number
  readonly reason: string
  readonly message: string
  /** `details.causes[].reason`. */
  readonly causes: readonly string[]
}

/** One page of a list. */
export interface ListPage {
  readonly version: string
  /** What to ask the next page with; empty after the last one. */
  readonly continueToken: string
  /** Decoded one by one as they are taken, so that a long page can be read with pauses. */
  readonly items: Iterable<Item>
}

/** Understands what a server says of one kind of object in one encoding. Throws Error for what cannot be understood at all. */
export interface Decoder {
  /** The body of a list. */
  list(body: Buffer): ListPage
  /** A frame of a watch. Does not throw: a frame that makes no sense is garbage. */
  event(frame: Buffer): Item
  /** The body of an answer that is an error; undefined if it is no Status. */
  status(body: Buffer): ApiStatus | undefined
}

const EVENT_TYPES = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const

/** Whether it is a type of event that is known (meta/v1 WatchEvent). */
export function isEventType(type: string): type is (typeof EVENT_TYPES)[number] {
  return EVENT_TYPES.some((known) => known === type)
}

/** The annotation of the bookmark that ends the initial events of a streaming list (KEP-3157). */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

/** `namespace/name`, or the name of what has no namespace. */
export function keyOf(namespace: string, name: string): string {
  return namespace === '' ? name : `${namespace}/${name}`
}

/** What an object without a name is refused with. */
export function nameless(): FieldError {
  return new FieldError(['metadata', 'name'], 'has no value, but is required')
}

/** An object that could not be decoded because of an error. A FieldError knows the field. */
export function garbage(kind: Kind, key: string | undefined, version: string, error: unknown): Item {
  const object = key === undefined ? `${kind} without a name` : `${kind} ${key}`
  const wrong =
    error instanceof FieldError
      ? { field: pathText(error.path), message: error.message }
      : { field: '', message: `cannot be decoded: ${error instanceof Error ? error.message : error}` }
  return { type: 'garbage', key, version, problem: { object, ...wrong } }
}
