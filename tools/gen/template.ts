/**
 * The part of Go's text/template that the Helm chart keeps to, so that what is installed without Helm can be written from
 * it: paths, `if`, `else`, `range`, `eq`, `not`, `printf "%q"`, variables of a range, and the dashes that trim. Pure.
 */

export type Value = null | boolean | number | string | readonly Value[] | { readonly [name: string]: Value }

interface Scope {
  readonly dot: Value
  readonly variables: Readonly<Record<string, Value>>
}

/** A piece of a template, waiting for what it is about. */
type Part = (scope: Scope) => string

interface Token {
  readonly kind: 'text' | 'action'
  readonly text: string
}

/** What a template says of `data`. Throws an error that names the action that is not one of these. */
export function render(template: string, data: Value): string {
  const tokens = tokensOf(template)
  const { parts, end } = partsFrom(tokens, 0)
  if (end < tokens.length) throw new Error(`template: {{ ${tokens[end]?.text} }} ends nothing`)
  return joined(parts, { dot: data, variables: {} })
}

function joined(parts: readonly Part[], scope: Scope): string {
  return parts.map((part) => part(scope)).join('')
}

/** A dash takes the white space on its side of the action. */
function tokensOf(template: string): Token[] {
  const tokens: Token[] = []
  let rest = 0
  let isTrimmed = false
  const push = (text: string, trimsEnd: boolean): void => {
    const begun = isTrimmed ? text.trimStart() : text
    tokens.push({ kind: 'text', text: trimsEnd ? begun.trimEnd() : begun })
  }
  for (const match of template.matchAll(/\{\{(- )?\s*(.*?)\s*( -)?\}\}/g)) {
    const [whole, before, action = '', after] = match
    push(template.slice(rest, match.index), before !== undefined)
    tokens.push({ kind: 'action', text: action })
    rest = match.index + whole.length
    isTrimmed = after !== undefined
  }
  push(template.slice(rest), false)
  return tokens
}

interface Block {
  readonly parts: readonly Part[]
  /** The index of the `else` or `end` that it runs up to, or of the end of the template. */
  readonly end: number
}

function partsFrom(tokens: readonly Token[], start: number): Block {
  const parts: Part[] = []
  let at = start
  for (let token = tokens[at]; token !== undefined; token = tokens[at]) {
    const { kind, text } = token
    if (kind === 'text') {
      parts.push(() => text)
      at++
    } else if (/^(else|end)\b/.test(text)) {
      return { parts, end: at }
    } else if (/^(if|range)\b/.test(text)) {
      const block = blockFrom(tokens, at, text)
      parts.push(joinedPart(block.parts))
      at = block.end
    } else {
      parts.push((scope) => printed(evaluate(text, scope), text))
      at++
    }
  }
  return { parts, end: at }
}

const joinedPart =
  (parts: readonly Part[]): Part =>
  (scope) =>
    joined(parts, scope)

/** From an `if`, `else if` or `range` to behind its `end`. */
function blockFrom(tokens: readonly Token[], at: number, head: string): Block {
  const body = partsFrom(tokens, at + 1)
  const closing = tokens[body.end]?.text
  if (closing === undefined) throw new Error(`template: {{ ${head} }} has no end`)
  let otherwise: readonly Part[] = []
  let { end } = body
  if (closing.startsWith('else if ')) {
    ;({ parts: otherwise, end } = blockFrom(tokens, end, closing.slice('else '.length)))
    return { parts: [choice(head, body.parts, otherwise)], end }
  }
  if (closing === 'else') {
    ;({ parts: otherwise, end } = partsFrom(tokens, end + 1))
    if (tokens[end]?.text !== 'end') throw new Error(`template: the else of {{ ${head} }} has no end`)
  }
  return { parts: [choice(head, body.parts, otherwise)], end: end + 1 }
}

function choice(head: string, body: readonly Part[], otherwise: readonly Part[]): Part {
  const [, condition] = /^if (.+)$/.exec(head) ?? []
  if (condition !== undefined) {
    return (scope) => joined(isTrue(evaluate(condition, scope)) ? body : otherwise, scope)
  }
  const [, key, value, over] = /^range (?:\$(\w+), \$(\w+) := )?(.+)$/.exec(head) ?? []
  if (over === undefined) throw new Error(`template: {{ ${head} }} is not understood`)
  return (scope) => {
    const items = itemsOf(evaluate(over, scope))
    if (items.length === 0) return joined(otherwise, scope)
    return items
      .map(([name, dot]) => {
        const named = key === undefined || value === undefined ? {} : { [key]: name, [value]: dot }
        return joined(body, { dot, variables: { ...scope.variables, ...named } })
      })
      .join('')
  }
}

/** With their keys, in the order of these, as Go does. */
function itemsOf(value: Value): (readonly [Value, Value])[] {
  if (value === null || typeof value !== 'object') return []
  if (Array.isArray(value)) return value.map((item: Value, index) => [index, item])
  return Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** False are Go's zero values, and what is not there. */
function isTrue(value: Value): boolean {
  if (typeof value !== 'object') return Boolean(value)
  return itemsOf(value).length > 0
}

function evaluate(expression: string, scope: Scope): Value {
  const [, name, words] = /^(eq|not|printf "%q") (.+)$/.exec(expression) ?? []
  if (name === undefined || words === undefined) return operand(expression, scope)
  const values = words.split(' ').map((word) => operand(word, scope))
  const [first = null, second] = values
  if (name === 'eq') return first === second
  if (name === 'not') return !isTrue(first)
  return JSON.stringify(first)
}

function operand(word: string, scope: Scope): Value {
  if (/^"[^"\\]*"$/.test(word)) return word.slice(1, -1)
  const [, variable] = /^\$(\w+)$/.exec(word) ?? []
  if (variable !== undefined) return scope.variables[variable] ?? null
  if (word === '.') return scope.dot
  if (!/^(\.\w+)+$/.test(word)) throw new Error(`template: {{ ${word} }} is not understood`)
  let value = scope.dot
  for (const name of word.slice(1).split('.')) {
    value =
      value !== null && typeof value === 'object' && !Array.isArray(value) ? memberOf(value, name) : null
  }
  return value
}

function memberOf(value: Value, name: string): Value {
  return (value as Readonly<Record<string, Value>>)[name] ?? null
}

function printed(value: Value, action: string): string {
  if (value === null || typeof value === 'object') {
    throw new Error(`template: {{ ${action} }} is no text or number`)
  }
  return String(value)
}
