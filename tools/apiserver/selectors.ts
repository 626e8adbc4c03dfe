/** Label and field selectors, as far as clients of a service proxy's kind use them. Pure. */

import { type ApiObject, isJsonObject, type Json } from './kinds.ts'

export type Selector = (object: ApiObject) => boolean

/** A selector that the server does not understand; the message is for the client. */
export class SelectorError extends Error {
  override readonly name = 'SelectorError'
}

/** `a`, `!a`, `a=b`, `a==b`, `a!=b`, joined by commas. Empty: every object. Throws SelectorError. */
export function parseLabelSelector(text: string): Selector {
  const requirements = termsOf(text).map((term) => {
    const { key, operator, value } = termOf(term)
    const label = (object: ApiObject): Json | undefined => {
      const labels = object.metadata['labels']
      return isJsonObject(labels) ? labels[key] : undefined
    }
    return comparison(operator, value, label)
  })
  return (object) => requirements.every((matches) => matches(object))
}

/** The fields that the server can select by, by resource; `metadata.name` and `metadata.namespace` work for all. */
export type SelectableFields = ReadonlySet<string>

/** `a.b=c`, `a.b!=c`, joined by commas; a field that is absent counts as empty. Throws SelectorError. */
export function parseFieldSelector(text: string, selectable: SelectableFields): Selector {
  const requirements = termsOf(text).map((term) => {
    const { key, operator, value } = termOf(term)
    if (operator === 'absent' || operator === 'present')
      throw new SelectorError(`invalid selector: '${term}'`)
    if (!selectable.has(key)) throw new SelectorError(`field label not supported: ${key}`)
    return comparison(operator, value, (object) => fieldOf(object, key.split('.')) ?? '')
  })
  return (object) => requirements.every((matches) => matches(object))
}

function termsOf(text: string): string[] {
  return text.split(',').filter((term) => term.trim() !== '')
}

type Operator = 'absent' | 'present' | 'equal' | 'unequal'

function termOf(text: string): { readonly key: string; readonly operator: Operator; readonly value: string } {
  const [, not, key = '', sign, value = ''] =
    /^\s*(!?)([\w./-]+)\s*(?:(==?|!=)\s*([\w./-]*))?\s*$/.exec(text) ?? []
  if (key === '' || (not === '!' && sign !== undefined))
    throw new SelectorError(`invalid selector: '${text}'`)
  if (sign !== undefined) return { key, operator: sign === '!=' ? 'unequal' : 'equal', value }
  return { key, operator: not === '!' ? 'absent' : 'present', value }
}

function comparison(
  operator: Operator,
  value: string,
  read: (object: ApiObject) => Json | undefined,
): Selector {
  switch (operator) {
    case 'absent':
      return (object) => read(object) === undefined
    case 'present':
      return (object) => read(object) !== undefined
    case 'equal':
      return (object) => read(object) === value
    case 'unequal':
      return (object) => read(object) !== value
  }
}

function fieldOf(object: ApiObject, path: readonly string[]): Json | undefined {
  let value: Json | undefined = object
  for (const name of path) value = isJsonObject(value) ? value[name] : undefined
  return value
}
