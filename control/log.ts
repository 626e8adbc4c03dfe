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
}

/** A logger that writes each line before it returns: what a dying process said last is what one needs. */
export function createLog(options: LogOptions): Logger {
  const { format, write } = options
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
  return {
    trace: (message, fields) => log.trace(fields ?? {}, message),
    debug: (message, fields) => log.debug(fields ?? {}, message),
    info: (message, fields) => log.info(fields ?? {}, message),
    warn: (message, fields) => log.warn(fields ?? {}, message),
    error: (message, fields) => log.error(fields ?? {}, message),
    isDebug: level !== 'info',
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
