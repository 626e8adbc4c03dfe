/** What the API server answers in JSON: for servers, or what stands in front of them, that refuse protobuf. */

import { Fields } from '../fields.ts'
import type { Sharing } from '../sharing.ts'
import type { Kind } from '../source.ts'
import { type ApiStatus, type Decoder, type Item, isEventType, type ListPage } from './items.ts'
import { ObjectReader, readStatus } from './object-reader.ts'

/** Reads one kind of objects. */
export class JsonDecoder implements Decoder {
  readonly #objects: ObjectReader

  constructor(kind: Kind, sharing: Sharing) {
    this.#objects = new ObjectReader(kind, sharing)
  }

  list(body: Buffer): ListPage {
    const fields = new Fields(JSON.parse(body.toString()), [])
    this.#objects.expectKind(fields.text('kind', ''), 'List')
    const metadata = fields.child('metadata')
    return {
      version: metadata.text('resourceVersion', ''),
      continueToken: metadata.text('continue', ''),
      items: this.#items(fields.list('items')),
    }
  }

  *#items(values: readonly unknown[]): Iterable<Item> {
    for (const value of values) yield this.#objects.object(value)
  }

  event(frame: Buffer): Item {
    try {
      const event = new Fields(JSON.parse(frame.toString()), [])
      const type = event.requiredText('type')
      if (!isEventType(type)) return { type: 'unknown', event: type }
      const value = event.value('object')
      if (type === 'ERROR') return { type: 'error', status: readStatus(value) }
      this.#objects.expectKind(new Fields(value, []).text('kind', ''))
      if (type === 'DELETED') return this.#objects.gone(value)
      return type === 'BOOKMARK' ? this.#objects.bookmark(value) : this.#objects.object(value)
    } catch (error) {
      return this.#objects.garbage(undefined, error)
    }
  }

  status(body: Buffer): ApiStatus | undefined {
    try {
      const value: unknown = JSON.parse(body.toString())
      return new Fields(value, []).text('kind', '') === 'Status' ? readStatus(value) : undefined
    } catch {
      return undefined
    }
  }
}
