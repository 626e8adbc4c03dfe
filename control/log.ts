/**
 * The daemon's log: JSON for machines, a line a person can read otherwise. The only file that knows pino.
 */

import { pino } from 'pino'

/** A message, and what it is about. Values are plain: text, numbers, booleans, lists of them. */
export type Fields = Readonly<Record<string, unknown>>

export interface Logger {
  trace(message: string, fields?: Fields): void
  debug(message: string, fields?: Fields): void
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  /** An `Error` under the field `err` is printed with its message, and in the JSON format with its stack. */
  error(message: string, fields?: Fields): void
  /** True when debug lines are printed: for those whose fields cost something to compute. */
  readonly isDebug: boolean
}

export type LoggingFormat = 'text' | 'json'

export interface LogOptions {
  readonly format: LoggingFormat
  /** klog's `-v`: 0 to 2 print info, 3 and 4 debug, 5 and more trace. */
  readonly verbosity: number
  /** Takes whole lines, each with its end. */
  readonly write: (line: string) => void
  /** Milliseconds of a monotonic clock (default: the machine's). */
  readonly nowMs?: () => number
}

/** So many equal warnings and errors within this time are printed; the others are counted. */
const EQUAL_SHOWN = 3
const EQUAL_WINDOW_MS = 60_000
/** So many different ones are told apart. */
const EQUAL_KEPT = 1000

/**
 * A logger that writes each line before it returns: what a dying process said last is what one needs. Warnings and errors
 * that come again and again with the same words are collapsed: the next one that is printed has their count, as
 * `repeated`.
 */
export function createLog(options: LogOptions): Logger {
  const { format, write, nowMs = () => performance.now() } = options
  const collapser = new Collapser(nowMs)
  const level = levelOf(options.verbosity)
  const log = pino(
    {
      level,
      base: null,
      timestamp: () => `,"ts":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: format === 'json' ? write : (line: string) => write(textLine(JSON.parse(line))) },
  )
  const tell = (level: 'warn' | 'error', message: string, fields: Fields = {}) => {
    const repeated = collapser.admit(`${level} ${message} ${wordsOf(fields)}`)
    if (repeated !== undefined) log[level](repeated === 0 ? fields : { ...fields, repeated }, message)
  }
  return {
    trace: (message, fields) => log.trace(fields ?? {}, message),
    debug: (message, fields) => log.debug(fields ?? {}, message),
    info: (message, fields) => log.info(fields ?? {}, message),
    warn: (message, fields) => tell('warn', message, fields),
    error: (message, fields) => tell('error', message, fields),
    isDebug: level !== 'info',
  }
}

/** What tells two lines apart, beside their messages: numbers are of the moment. */
function wordsOf(fields: Fields): string {
  return Object.entries(fields)
    .filter(([, value]) => typeof value !== 'number')
    .map(([name, value]) => `${name}=${value instanceof Error ? value.message : JSON.stringify(value)}`)
    .join()
}

/** Counts what is equal. */
class Collapser {
  readonly #nowMs: () => number
  readonly #seen = new Map<string, { readonly sinceMs: number; shown: number; held: number }>()

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** How many before this one were not shown; undefined if this one is not to be, either. */
  admit(key: string): number | undefined {
    const nowMs = this.#nowMs()
    const seen = this.#seen.get(key)
    if (seen !== undefined && nowMs - seen.sinceMs < EQUAL_WINDOW_MS) {
      if (seen.shown < EQUAL_SHOWN) {
        seen.shown += 1
        return 0
      }
      seen.held += 1
      return undefined
    }
    this.#seen.delete(key)
    this.#seen.set(key, { sinceMs: nowMs, shown: 1, held: 0 })
    const [oldest] = this.#seen.keys()
    if (this.#seen.size > EQUAL_KEPT && oldest !== undefined) this.#seen.delete(oldest)
    return seen?.held ?? 0
  }
}

/** klog's numbers in pino's words. */
export function levelOf(verbosity: number): 'info' | 'debug' | 'trace' {
  if (verbosity >= 5) return 'trace'
  return verbosity >= 3 ? 'debug' : 'info'
}

/** `17:02:03.123 INFO  message key=value`, with the time of this machine's zone. */
export function textLine(record: Record<string, unknown>): string {
  const { level, ts, msg, ...fields } = record
  const pairs = Object.entries(fields).map(([key, value]) => ` ${key}=${valueText(value)}`)
  return `${clock(new Date(String(ts)))} ${String(level).toUpperCase().padEnd(5)} ${msg}${pairs.join('')}\n`
}

/** Text without blanks or quotes stays as it is, so that a line reads well and still splits at its blanks. */
function valueText(value: unknown): string {
  if (typeof value === 'string') return /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object'))
    return valueText(value.join(','))
  if (isLoggedError(value)) return JSON.stringify(value.message)
  return JSON.stringify(value) ?? 'undefined'
}

/** What pino makes of an `Error`. */
function isLoggedError(value: unknown): value is { readonly message: string } {
  return typeof value === 'object' && value !== null && 'stack' in value && 'message' in value
}

function clock(time: Date): string {
  const two = (value: number) => String(value).padStart(2, '0')
  const milliseconds = String(time.getMilliseconds()).padStart(3, '0')
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${milliseconds}`
}
