/**
 * A configuration as a table: sections, and in them fields that say what they can be, what they are when nobody says
 * otherwise, and what becomes of them here. Reading by it finds every problem at once. Pure.
 */

import type { Kind } from './kinds.ts'
import { Refusal } from './refusal.ts'

/**
 * What becomes of a field. `honoured`: it does here what it does in kube-proxy. `mapped`: something of ours that serves the
 * same end. `warned`: it changes nothing, and one who asks for something by it is told. `ignored`: it changes nothing that
 * anybody would notice.
 */
export type Becomes = 'honoured' | 'mapped' | 'warned' | 'ignored'

export interface Row {
  readonly becomes: Becomes
  /** What it means for us: a phrase for the documentation, and for the warning where there is one. */
  readonly means: string
  /** The flag of the same meaning, with its dashes. */
  readonly flag?: string
  /** A zero is a value of its own, unlike null and nothing: kube-proxy has a pointer there. */
  readonly zeroIsMeant?: true
}

export interface Field<T> extends Row {
  readonly kind: Kind<T>
  /** When nothing is said. */
  readonly normal: T
}

export interface Table {
  readonly [name: string]: Field<unknown> | Table
}

/** What a table's fields hold. */
export type Values<T extends Table> = {
  readonly [K in keyof T]: T[K] extends Field<infer V> ? V : T[K] extends Table ? Values<T[K]> : never
}

/** The way to a field from the root of the document. */
export type FieldPath = readonly string[]

/** A value that a field does not take. */
export interface Problem {
  readonly path: FieldPath
  readonly got: unknown
  /** A sentence. */
  readonly takes: string
}

/** What was found while reading. */
export interface Findings {
  readonly problems: Problem[]
  /** Fields that no table has. */
  readonly unknown: FieldPath[]
}

export function isField(entry: Field<unknown> | Table): entry is Field<unknown> {
  return 'kind' in entry
}

/** All fields of a table, in its order, with the way to each. */
export function* fieldsOf(
  table: Table,
  path: FieldPath = [],
): Generator<readonly [FieldPath, Field<unknown>]> {
  for (const [name, entry] of Object.entries(table)) {
    if (isField(entry)) yield [[...path, name], entry]
    else yield* fieldsOf(entry, [...path, name])
  }
}

/**
 * Reads a mapping by a table. What does not fit is noted, and the field's usual value stands in for it, so that all is
 * looked at. Null, nothing and, unless it is meant, zero are the usual value, as with kube-proxy.
 */
export function readTable<T extends Table>(table: T, value: unknown, findings: Findings): Values<T> {
  // The keys and the kinds of the values are the table's.
  return readSection(table, value, [], findings) as Values<T>
}

function readSection(table: Table, value: unknown, path: FieldPath, findings: Findings): object {
  const given = mappingOf(value, path, findings)
  for (const name of Object.keys(given))
    if (!Object.hasOwn(table, name)) findings.unknown.push([...path, name])
  return Object.fromEntries(
    Object.entries(table).map(([name, entry]) => {
      const at = [...path, name]
      const got = Object.hasOwn(given, name) ? given[name] : undefined
      return [
        name,
        isField(entry) ? readField(entry, got, at, findings) : readSection(entry, got, at, findings),
      ]
    }),
  )
}

function mappingOf(value: unknown, path: FieldPath, findings: Findings): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {}
  if (typeof value === 'object' && !Array.isArray(value)) return { ...value }
  findings.problems.push({ path, got: value, takes: 'It takes a mapping.' })
  return {}
}

function readField(field: Field<unknown>, got: unknown, path: FieldPath, findings: Findings): unknown {
  if (got === undefined || got === null) return field.normal
  try {
    const read = field.kind.read(got)
    return !field.zeroIsMeant && isSame(read, field.kind.zero) ? field.normal : read
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    findings.problems.push({ path, got, takes: error.message })
    return field.normal
  }
}

/** Whether two values of a kind are the same; they are plain data. */
export function isSame(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right)
}

/** The value at a path; undefined if there is none. */
export function valueAt(values: object, path: FieldPath): unknown {
  return path.reduce<unknown>(
    (value, name) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Readonly<Record<string, unknown>>)[name]
        : undefined,
    values,
  )
}
