/** How long a file or a C function may be; Biome sees to TypeScript's functions. What is generated may be longer. */

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const FILE_LINES_MAX = 500
const FUNCTION_LINES_MAX = 70

function sourcesOf(endings: string): readonly { path: string; lines: readonly string[] }[] {
  const passedOver = (path: string) => /(^|\/)(node_modules|build|generated\.ts)/.test(path)
  return globSync(`**/*.{${endings}}`, { cwd: ROOT, exclude: passedOver })
    .filter((path) => !passedOver(path))
    .map((path) => ({ path, lines: readFileSync(join(ROOT, path), 'utf8').trimEnd().split('\n') }))
}

/** The functions of a C file in kernel style, whose braces stand alone: where each begins, and its lines. */
function functionsOf(lines: readonly string[]): readonly { begin: number; length: number }[] {
  return lines.flatMap((line, begin) => {
    if (line !== '{') return []
    return [{ begin, length: lines.slice(begin).indexOf('}') + 1 }]
  })
}

test(`no file has more than ${FILE_LINES_MAX} lines`, () => {
  const sources = sourcesOf('ts,mjs,c,h')
  assert.ok(sources.length > 300, `${sources.length} files`)
  const long = sources.filter(({ lines }) => lines.length > FILE_LINES_MAX)
  assert.deepEqual(
    long.map(({ path, lines }) => `${path}: ${lines.length}`),
    [],
  )
})

test(`no function of C has more than ${FUNCTION_LINES_MAX} lines`, () => {
  const all = sourcesOf('c,h').flatMap(({ path, lines }) =>
    functionsOf(lines).map(({ begin, length }) => ({ where: `${path}:${begin}`, length })),
  )
  assert.ok(all.length > 100, `${all.length} functions`)
  assert.deepEqual(
    all.filter(({ length }) => length > FUNCTION_LINES_MAX),
    [],
  )
})
