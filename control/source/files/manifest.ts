/**
 * A file of manifests: split into documents, each parsed and read, what is as it was in the version before taken over
 * from there. Pure.
 */

import { hash } from 'node:crypto'
import type { SourceProblem } from '../source.ts'
import { type Contents, type FoundObject, readObjects } from './objects.ts'
import { linesOf, type Parsed, parseJson, parseYaml } from './yaml.ts'

/** What a file holds. */
export interface Manifest {
  /** By kind and key; the first of two that name the same object. */
  readonly objects: ReadonlyMap<string, PlacedObject>
  readonly problems: readonly SourceProblem[]
  readonly ignored: readonly string[]
  /** By a hash of the document's text: an edit of one document parses that one. */
  readonly documents: ReadonlyMap<string, Document>
}

/** An object and where it stands. */
export interface PlacedObject {
  readonly change: FoundObject
  /** `web.yaml:12` */
  readonly place: string
}

/** A document by itself. Lines count from its own beginning, so that it can move within the file. */
interface Document {
  readonly contents: Contents
  /** Where its objects are said to be: finding the lines of the items of a list would cost another parse. */
  readonly firstLine: number
  readonly problemLines: readonly number[]
}

/** A file without documents. */
export const emptyManifest: Manifest = { objects: new Map(), problems: [], ignored: [], documents: new Map() }

/**
 * Reads a file. `previous` is the version before.
 * - A file that does not parse, in whichever document, keeps all its objects as they were: half of it may not have
 *   been written yet.
 * - An object of a shape that cannot be read stays as it was.
 */
export function readManifest(file: string, text: string, previous: Manifest): Manifest {
  const documents = new Map<string, Document>()
  const placed: { readonly line: number; readonly document: Document }[] = []
  for (const { line, text: part } of split(file, text)) {
    const key = hash('sha1', part)
    const document = documents.get(key) ?? previous.documents.get(key) ?? readDocument(file, part)
    if ('syntax' in document) {
      const place = `${file}:${line + document.syntax.line}`
      const message = `${document.syntax.message}; the objects of this file stay as they were`
      return { ...previous, ignored: [], problems: [{ object: `File ${file}`, field: '', message, place }] }
    }
    documents.set(key, document)
    placed.push({ line, document })
  }
  return assemble(file, placed, documents, previous)
}

function assemble(
  file: string,
  placed: readonly { readonly line: number; readonly document: Document }[],
  documents: ReadonlyMap<string, Document>,
  previous: Manifest,
): Manifest {
  const objects = new Map<string, PlacedObject>()
  const problems: SourceProblem[] = []
  for (const { line, document } of placed) {
    document.contents.problems.forEach(({ path: _, ...problem }, i) => {
      problems.push({ ...problem, place: `${file}:${line + (document.problemLines[i] ?? 1)}` })
    })
    const place = `${file}:${line + document.firstLine}`
    for (const change of document.contents.found) {
      addObject(objects, problems, `${change.kind} ${change.key}`, { change, place })
    }
  }
  for (const { kind, key } of placed.flatMap(({ document }) => document.contents.refused)) {
    const id = `${kind} ${key}`
    const before = previous.objects.get(id)
    if (before !== undefined && !objects.has(id)) objects.set(id, before)
  }
  const ignored = placed.flatMap(({ document }) => document.contents.ignored)
  return { objects, problems, ignored, documents }
}

/** Adds an object unless it is there already; then it is a problem, for whose place that is would be chance. */
export function addObject(
  objects: Map<string, PlacedObject>,
  problems: SourceProblem[],
  id: string,
  added: PlacedObject,
): void {
  const first = objects.get(id)
  if (first === undefined) {
    objects.set(id, added)
    return
  }
  const message = `is defined at ${first.place} already; this one is left out`
  problems.push({ object: id, field: '', message, place: added.place })
}

function readDocument(file: string, text: string): Document | Exclude<Parsed, { value: unknown }> {
  const parsed = isJson(file) ? parseJson(text) : parseYaml(text)
  if ('syntax' in parsed) return parsed
  const contents = readObjects(parsed.value)
  return {
    contents,
    firstLine: firstLine(text),
    problemLines: linesOf(
      text,
      contents.problems.map(({ path }) => path),
    ),
  }
}

/** The first line that is no comment and not empty. */
function firstLine(text: string): number {
  const index = text.split('\n').findIndex((line) => !/^\s*(#|$)/.test(line))
  return index < 0 ? 1 : index + 1
}

function isJson(file: string): boolean {
  return file.endsWith('.json')
}

/**
 * The documents of a file, with the number of lines before each. In YAML `---` at the beginning of a line always
 * begins a document, even within a block of text, so no parser is needed. Parts of nothing but directives, comments
 * and end marks are left out.
 */
function split(file: string, text: string): readonly { readonly line: number; readonly text: string }[] {
  const plain = text.startsWith('\uFEFF') ? text.slice(1) : text
  if (isJson(file)) return plain.trim() === '' ? [] : [{ line: 0, text: plain }]
  const parts: { line: number; text: string }[] = []
  let line = 0
  for (const part of plain.split(/^(?=---(?:\s|$))/m)) {
    // The mark is no part of the document: the first one of a file may do without, and is the same document.
    const mark = /^---[ \t]*(?:#.*)?\r?\n/.exec(part)?.[0] ?? ''
    const isEmpty = !/^(?!%|#|\.\.\.\s*$|---\s*(?:#.*)?$|\s*(?:#.*)?$)/m.test(part)
    if (!isEmpty) parts.push({ line: line + (mark === '' ? 0 : 1), text: part.slice(mark.length) })
    line += part.split('\n').length - 1
  }
  return parts
}
