/** Text to values: YAML (the 1.2 core schema: `no` is a text, `010` is ten) and JSON. */

import { LineCounter, parseDocument, stringify } from 'yaml'
import type { Path } from '../fields.ts'

/** A document that could not be parsed. */
export interface SyntaxProblem {
  /** From 1. */
  readonly line: number
  readonly message: string
}

export type Parsed = { readonly value: unknown } | { readonly syntax: SyntaxProblem }

/** Looking for the line of a field in a longer document would take seconds; its first line is given instead. */
const SEARCHED_LENGTH_MAX = 1_000_000

/** Parses one document. */
export function parseYaml(text: string): Parsed {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const error = document.errors[0]
  if (error !== undefined)
    return { syntax: { line: lines.linePos(error.pos[0]).line, message: error.message } }
  try {
    return { value: document.toJS() }
  } catch (error) {
    // An alias without an anchor, or aliases that multiply beyond measure.
    return { syntax: { line: 1, message: messageOf(error) } }
  }
}

/** A document of plain data. */
export function yamlText(value: unknown): string {
  return stringify(value)
}

/** Parses a JSON file, many times faster than as YAML. */
export function parseJson(text: string): Parsed {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    const message = messageOf(error)
    return { syntax: { line: Number(/\(line (\d+)/.exec(message)?.[1] ?? 1), message } }
  }
}

/**
 * The line (from 1) of each field in a document, or of the nearest mapping around it that is there. Parses the text
 * again: only for what has gone wrong, so that what is right need not keep track of lines.
 */
export function linesOf(text: string, paths: readonly Path[]): readonly number[] {
  if (paths.length === 0 || text.length > SEARCHED_LENGTH_MAX) return paths.map(() => 1)
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  return paths.map((path) => {
    for (let length = path.length; length >= 0; length--) {
      const start = startOf(document.getIn(path.slice(0, length), true))
      if (start !== undefined) return lines.linePos(start).line
    }
    return 1
  })
}

function startOf(node: unknown): number | undefined {
  if (typeof node !== 'object' || node === null || !('range' in node) || !Array.isArray(node.range))
    return undefined
  const start: unknown = node.range[0]
  return typeof start === 'number' ? start : undefined
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
