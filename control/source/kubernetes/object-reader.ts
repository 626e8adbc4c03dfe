/** From objects, as the API's JSON has them, to items: what both encodings have in common. */

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
import type { Sharing } from '../sharing.ts'
import type { Kind } from '../source.ts'
import {
  type ApiObject,
  type ApiStatus,
  garbage,
  INITIAL_EVENTS_END,
  type Item,
  keyOf,
  nameless,
} from './items.ts'

/** What is read of an object before its fields. */
interface Identity extends ObjectName {
  readonly key: string
  readonly version: string
}

/** Reads one kind of objects. */
export class ObjectReader {
  readonly #kind: Kind
  readonly #sharing: Sharing

  constructor(kind: Kind, sharing: Sharing) {
    this.#kind = kind
    this.#sharing = sharing
  }

  /** Throws Error if what the server calls `kind` is another one. */
  expectKind(kind: string, suffix: '' | 'List' = ''): void {
    const expected = `${this.#kind}${suffix}`
    if (kind !== expected) throw new Error(`a ${kind} is not a ${expected}`)
  }

  /** An object of a list, or one that an event says is there. */
  object(value: unknown): Item {
    return this.#named(value, (fields) => {
      const identity = identityOf(fields)
      const { key, version } = identity
      return { type: 'object', key, version, object: this.#read(fields, identity) }
    })
  }

  /** An object that an event says is gone. Its metadata are enough. */
  gone(value: unknown): Item {
    return this.#named(value, (fields) => {
      const { key, version } = identityOf(fields)
      return { type: 'gone', key, version }
    })
  }

  /** See `gone`. */
  bookmark(value: unknown): Item {
    return this.#named(value, (fields) => {
      const metadata = fields.child('metadata')
      const ends = metadata.child('annotations').text(INITIAL_EVENTS_END, '') === 'true'
      return { type: 'bookmark', version: metadata.text('resourceVersion', ''), endsInitialEvents: ends }
    })
  }

  /** An object that cannot be used because of an error. `value` is what could be read of it, if only its metadata. */
  garbage(value: unknown, error: unknown): Item {
    const { key, version } = identityIn(value)
    return garbage(this.#kind, key, version, error)
  }

  #named(value: unknown, read: (fields: Fields) => Item): Item {
    try {
      return read(new Fields(value, []))
    } catch (error) {
      return this.garbage(value, error)
    }
  }

  #read(fields: Fields, name: ObjectName): ApiObject {
    switch (this.#kind) {
      case 'Service':
        return readService(fields, name, this.#sharing)
      case 'EndpointSlice':
        return readSlice(fields, name, this.#sharing)
      case 'Node':
        return readNode(fields, name)
      case 'Pod':
        return readPod(fields, name)
      case 'Namespace':
        return readNamespace(fields, name)
      case 'ServiceCIDR':
        return readServiceCIDR(fields, name)
    }
  }
}

/** Throws a FieldError for metadata that name nothing. */
function identityOf(fields: Fields): Identity {
  const metadata = fields.child('metadata')
  const name = metadata.text('name', '')
  const namespace = metadata.text('namespace', '')
  const version = metadata.text('resourceVersion', '')
  if (name === '') throw nameless()
  return { key: keyOf(namespace, name), name, namespace, version }
}

function identityIn(value: unknown): { readonly key: string | undefined; readonly version: string } {
  try {
    return identityOf(new Fields(value, []))
  } catch {
    return { key: undefined, version: '' }
  }
}

/** Throws a FieldError. */
export function readStatus(value: unknown): ApiStatus {
  const fields = new Fields(value, [])
  return {
    code: fields.integer('code', 0),
    reason: fields.text('reason', ''),
    message: fields.text('message', ''),
    causes: fields.child('details').children('causes', (cause) => cause.text('reason', '')),
  }
}
