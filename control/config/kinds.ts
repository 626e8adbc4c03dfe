/** What a field of a configuration can be, in a file and as the text of a flag. Pure. */

import { Refusal } from './refusal.ts'

/** A kind of value. */
export interface Kind<T> {
  /** What stands for "as usual", beside null and nothing at all. */
  readonly zero: T
  /** The value, normalised. Throws a `Refusal` that says what the field takes. */
  read(value: unknown): T
  /** The value that the text of a flag stands for, unread; what does not fit stays the text. */
  fromText(text: string): unknown
  /** The same as `read`, as far as JSON Schema says it. */
  readonly schema: Readonly<Record<string, unknown>>
}

/** Any text, or one that a parser takes, which throws a `Refusal` for others. An empty one is not put to it. */
export function text(parse: (text: string) => unknown = () => undefined): Kind<string> {
  return {
    zero: '',
    read: (value) => {
      if (typeof value !== 'string') throw new Refusal('It takes a text.')
      if (value !== '') parse(value)
      return value
    },
    fromText: (given) => given,
    schema: { type: 'string' },
  }
}

export function oneOf<const T extends string>(texts: readonly T[]): Kind<T | ''> {
  return {
    zero: '',
    read: (value) => {
      const found = texts.find((each) => each === value)
      if (found === undefined && value !== '') throw new Refusal(`It takes ${texts.join(', ')}.`)
      return found ?? ''
    },
    fromText: (given) => given,
    schema: { enum: texts },
  }
}

export const BOOLEAN: Kind<boolean> = {
  zero: false,
  read: (value) => {
    if (typeof value !== 'boolean') throw new Refusal('It takes true or false.')
    return value
  },
  fromText: (given) => (given === 'true' ? true : given === 'false' ? false : given),
  schema: { type: 'boolean' },
}

/** A whole number, both ends included. */
export function integer(min: number, max: number): Kind<number> {
  const takes = `It takes a whole number from ${min}${max < INT32_MAX ? ` to ${max}` : ' on'}.`
  return {
    zero: 0,
    read: (value) => {
      if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
        throw new Refusal(takes)
      return value
    },
    fromText: numberOf,
    schema: { type: 'integer', minimum: min, maximum: max },
  }
}

export const INT32_MAX = 2 ** 31 - 1

/** Any number, as of requests a second. */
export const NUMBER: Kind<number> = {
  zero: 0,
  read: (value) => {
    if (typeof value !== 'number') throw new Refusal('It takes a number.')
    return value
  },
  fromText: numberOf,
  schema: { type: 'number' },
}

/** A duration as Go writes it; the value is spelled as Go spells it. */
export const DURATION: Kind<string> = {
  zero: '0s',
  read: (value) => {
    const milliseconds = typeof value === 'string' ? parseDuration(value) : undefined
    if (milliseconds === undefined) throw new Refusal('It takes a duration such as 24h, 1h30m or 90s.')
    return durationText(milliseconds)
  },
  fromText: (given) => given,
  schema: { type: 'string', pattern: '^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$' },
}

/** A list of texts, or of such as a parser takes; as a flag with commas between them. */
export const TEXTS: Kind<readonly string[] | null> = {
  zero: null,
  read: (value) => {
    if (!Array.isArray(value) || value.some((each) => typeof each !== 'string'))
      throw new Refusal('It takes a list of texts.')
    return value.length === 0 ? null : value
  },
  fromText: (given) => (given === '' ? [] : given.split(',').map((each) => each.trim())),
  schema: { type: 'array', items: { type: 'string' } },
}

/** Names that are on or off; as a flag `A=true,B=false`. */
export const SWITCHES: Kind<Readonly<Record<string, boolean>>> = {
  zero: {},
  read: (value) => {
    const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
    if (!isMapping || Object.values(value).some((each) => typeof each !== 'boolean'))
      throw new Refusal('It takes names with true or false: {Name: true}.')
    return { ...value }
  },
  fromText: (given) => {
    if (given === '') return {}
    const pairs = given.split(',').map((each) => /^\s*(\w+)=(true|false)\s*$/.exec(each))
    if (pairs.some((pair) => pair === null)) return given
    return Object.fromEntries(pairs.map((pair) => [pair?.[1], pair?.[2] === 'true']))
  },
  schema: { type: 'object', additionalProperties: { type: 'boolean' } },
}

/** The largest number of entries that the kernel's map attribute can hold. */
const ENTRIES_MAX = 2 ** 32 - 1

/** Maps and their numbers of entries. */
export const SIZES: Kind<Readonly<Record<string, number>>> = {
  zero: {},
  read: (value) => {
    const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
    const isSize = (each: unknown) =>
      Number.isInteger(each) && Number(each) >= 1 && Number(each) <= ENTRIES_MAX
    if (!isMapping || !Object.values(value).every(isSize))
      throw new Refusal('It takes names of maps with their numbers of entries: {flows4: 65536}.')
    return { ...value }
  },
  fromText: (given) => given,
  schema: { type: 'object', additionalProperties: { type: 'integer', minimum: 1, maximum: ENTRIES_MAX } },
}

function numberOf(given: string): unknown {
  return /^[-+]?\d+(\.\d+)?$/.test(given) ? Number(given) : given
}

const UNIT_MS: Readonly<Record<string, number>> = {
  ...{ h: 3_600_000, m: 60_000, s: 1000, ms: 1 },
  ...{ us: 1e-3, µs: 1e-3, μs: 1e-3, ns: 1e-6 },
}

/** A duration as Go's `time.ParseDuration` reads it (`1h30m`, `-1s`, `0`), in milliseconds; undefined if it is none. */
export function parseDuration(given: string): number | undefined {
  const [, sign, body = ''] = /^([-+]?)(.+)$/.exec(given) ?? []
  if (body === '0') return 0
  const parts = [...body.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)]
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== body) return undefined
  const sum = parts.reduce((total, [, digits, unit = '']) => total + Number(digits) * (UNIT_MS[unit] ?? 0), 0)
  return sign === '-' ? -sum : sum
}

/** As Go writes it: `24h0m0s`, `1m30s`, `1.5s`, `500ms`, `0s`. Finer than a millisecond in its fractions. */
export function durationText(milliseconds: number): string {
  const sign = milliseconds < 0 ? '-' : ''
  const all = Math.abs(milliseconds)
  if (all > 0 && all < 1000) return `${sign}${rounded(all)}ms`
  const minutes = Math.floor(all / 60_000)
  const seconds = `${rounded((all - minutes * 60_000) / 1000)}s`
  const hours = Math.floor(minutes / 60)
  if (hours > 0) return `${sign}${hours}h${minutes % 60}m${seconds}`
  return minutes > 0 ? `${sign}${minutes}m${seconds}` : `${sign}${seconds}`
}

/** Without what only floating point has added. */
function rounded(value: number): number {
  return Number(value.toFixed(6))
}
