/**
 * The part of Go's text/template that the Helm chart keeps to, so that what is installed without Helm can be written from
 * it: paths, `if`, `else`, `range`, `eq`, `not`, `printf "%q"`, variables of a range, and the dashes that trim. Whatever
 * else there is in a template is an error, also where it would not be reached. Pure.
 */

export type Value = null | boolean | number | string | readonly Value[] | { readonly [name: string]: Value }

interface Scope {
  readonly dot: Value
  readonly variables: Readonly<Record<string, Value>>
}

/** A piece of a template, waiting for what it is about. */
type Part = (scope: Scope) => string

/** An expression, alike. */
type Expression = (scope: Scope) => Value

interface Token {
  readonly kind: 'text' | 'action'
  readonly text: string
}

interface Block {
  readonly parts: readonly Part[]
  /** The index of the `else` or `end` that it runs up to, or of the end of the template. */
  readonly end: number
}

/**
 * What a template says of `data`. Throws an error that names the action that is not one of these, or that Helm would
 * render otherwise.
 */
export function render(template: string, data: Value): string {
  const tokens = tokensOf(template)
  const { parts, end } = partsFrom(tokens, 0, [])
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
    const brace = /\{\{.*/.exec(text)
    if (brace !== null) throw new Error(`template: ${brace[0]} is not closed in its line`)
    const begun = isTrimmed ? text.trimStart() : text
    tokens.push({ kind: 'text', text: trimsEnd ? begun.trimEnd() : begun })
  }
  for (const match of template.matchAll(/\{\{(- )? *(.*?) *( -)?\}\}/g)) {
    const [whole, before, action = '', after] = match
    push(template.slice(rest, match.index), before !== undefined)
    tokens.push({ kind: 'action', text: action })
    rest = match.index + whole.length
    isTrimmed = after !== undefined
  }
  push(template.slice(rest), false)
  return tokens
}

/** `names`: of the variables that there are. */
function partsFrom(tokens: readonly Token[], start: number, names: readonly string[]): Block {
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
      const block = blockFrom(tokens, at, text, names)
      parts.push((scope) => joined(block.parts, scope))
      at = block.end
    } else {
      const expression = expressionOf(text, names)
      parts.push((scope) => printed(expression(scope), text))
      at++
    }
  }
  return { parts, end: at }
}

/** From an `if`, `else if` or `range` to behind its `end`. */
function blockFrom(tokens: readonly Token[], at: number, head: string, names: readonly string[]): Block {
  const [, condition] = /^if (.+)$/.exec(head) ?? []
  const [, key, value, over] = /^range (?:\$(\w+), \$(\w+) := )?(.+)$/.exec(head) ?? []
  const subject = condition ?? over
  if (subject === undefined) throw new Error(`template: {{ ${head} }} is not understood`)
  const expression = expressionOf(subject, names)
  const own = key === undefined || value === undefined ? [] : [key, value]
  const body = partsFrom(tokens, at + 1, [...names, ...own])
  const { parts: otherwise, end } = elseFrom(tokens, body.end, head, names)
  if (condition !== undefined) {
    return { parts: [(scope) => joined(isTrue(expression(scope)) ? body.parts : otherwise, scope)], end }
  }
  const part: Part = (scope) => {
    const items = itemsOf(expression(scope), head)
    if (items.length === 0) return joined(otherwise, scope)
    return items
      .map(([name, dot]) => {
        const named = key === undefined || value === undefined ? {} : { [key]: name, [value]: dot }
        return joined(body.parts, { dot, variables: { ...scope.variables, ...named } })
      })
      .join('')
  }
  return { parts: [part], end }
}

/** What stands between the `else` of a block and its `end`, if there is one; `end` is behind it. */
function elseFrom(tokens: readonly Token[], at: number, head: string, names: readonly string[]): Block {
  const closing = tokens[at]?.text
  if (closing === undefined) throw new Error(`template: {{ ${head} }} has no end`)
  if (closing === 'end') return { parts: [], end: at + 1 }
  if (closing.startsWith('else if ') && head.startsWith('if ')) {
    return blockFrom(tokens, at, closing.slice('else '.length), names)
  }
  if (closing !== 'else') throw new Error(`template: {{ ${closing} }} is not understood`)
  const { parts, end } = partsFrom(tokens, at + 1, names)
  if (tokens[end]?.text !== 'end') throw new Error(`template: the else of {{ ${head} }} has no end`)
  return { parts, end: end + 1 }
}

/** With their keys, in the order of these, as Go does. */
function itemsOf(value: Value, head: string): (readonly [Value, Value])[] {
  if (value === null) return []
  if (typeof value !== 'object') throw new Error(`template: {{ ${head} }} has nothing to go through`)
  if (Array.isArray(value)) return value.map((item: Value, index) => [index, item])
  return Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** False are Go's zero values, and what is not there. */
function isTrue(value: Value): boolean {
  if (value === null || typeof value !== 'object') return Boolean(value)
  return Object.keys(value).length > 0
}

function expressionOf(text: string, names: readonly string[]): Expression {
  const [, name, words] = /^(eq|not|printf "%q") (.+)$/.exec(text) ?? []
  if (name === undefined || words === undefined) return operandOf(text, names)
  const [first, second, ...more] = words.split(' ').map((word) => operandOf(word, names))
  const wanted = name === 'eq' ? 2 : 1
  if (first === undefined || more.length > 0 || (second === undefined) !== (wanted === 1)) {
    throw new Error(`template: {{ ${text} }} is not understood: ${name} takes ${wanted}`)
  }
  if (name === 'not') return (scope) => !isTrue(first(scope))
  if (second === undefined) return (scope) => quoted(first(scope), text)
  return (scope) => {
    const [one, other] = [first(scope), second(scope)]
    if (typeof one === typeof other && typeof one !== 'object') return one === other
    throw new Error(`template: {{ ${text} }} compares what Go does not`)
  }
}

function operandOf(word: string, names: readonly string[]): Expression {
  if (/^"[^"\\]*"$/.test(word)) return () => word.slice(1, -1)
  const [, variable] = /^\$(\w+)$/.exec(word) ?? []
  if (variable !== undefined) {
    if (!names.includes(variable)) throw new Error(`template: there is no variable $${variable}`)
    return ({ variables }) => variables[variable] ?? null
  }
  if (word === '.') return ({ dot }) => dot
  if (!/^(\.[A-Za-z_]\w*)+$/.test(word)) throw new Error(`template: {{ ${word} }} is not understood`)
  const path = word.slice(1).split('.')
  return ({ dot }) => path.reduce((value, name) => memberOf(value, name, word), dot)
}

/** What is not in an object is nothing; what is nothing has no members. */
function memberOf(value: Value, name: string, word: string): Value {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new Error(`template: {{ ${word} }} goes through what has no members`)
  }
  const members = value as Readonly<Record<string, Value>>
  return Object.hasOwn(members, name) ? (members[name] ?? null) : null
}

/** As a text in quotation marks, where Go and JSON agree on how that is written. */
function quoted(value: Value, text: string): string {
  if (typeof value !== 'string' || !/^[\x20-\x7e]*$/.test(value)) {
    throw new Error(`template: {{ ${text} }} takes a text of printable characters`)
  }
  return JSON.stringify(value)
}

/** From here on Helm, to which all numbers are floating, writes them with an exponent. */
const TOO_LARGE = 1e6

function printed(value: Value, text: string): string {
  if (value === null || typeof value === 'object') {
    throw new Error(`template: {{ ${text} }} is no text or number`)
  }
  if (typeof value === 'number' && !(Number.isInteger(value) && Math.abs(value) < TOO_LARGE)) {
    throw new Error(`template: Helm writes ${value} in {{ ${text} }} in another way: make it a text`)
  }
  return String(value)
}
