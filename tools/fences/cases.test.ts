/** The catalogue of 45 cases in which balancers of services were found wrong: each is the name of a test, or of several. */

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')

/** The numbers; those between are not of the catalogue. */
const CASES: readonly number[] = [
  ...[
    1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 14, 15, 17, 18, 19, 20, 22, 23, 25, 26, 27, 28, 30, 31, 32, 33, 35, 36,
  ],
  ...[38, 39, 40, 41, 42, 44, 45, 46, 48, 49, 51, 53, 54, 55, 57, 58, 60],
]

/** What stands at the beginning of a name, as `B36 many endpoints: …`. */
const NAME = /\b(?:test|it|group|describe)\(\s*['"`]B(\d\d)\b/g

const nameOf = (number: number) => `B${String(number).padStart(2, '0')}`

/** By case: the files that have a test of this name. */
function testedCases(): ReadonlyMap<number, readonly string[]> {
  const cases = new Map<number, string[]>()
  const files = globSync('{control,bpf,tools,deploy}/**/*.ts', { cwd: ROOT }).filter(
    (path) => !path.includes('node_modules'),
  )
  for (const path of files) {
    for (const [, number] of readFileSync(join(ROOT, path), 'utf8').matchAll(NAME)) {
      const known = cases.get(Number(number)) ?? []
      if (!known.includes(path)) cases.set(Number(number), [...known, path])
    }
  }
  return cases
}

test(`each of the ${CASES.length} cases is the name of a test`, (context) => {
  const tested = testedCases()
  assert.deepEqual(
    CASES.filter((number) => !tested.has(number)).map((number) => `${nameOf(number)} has no test`),
    [],
  )
  assert.deepEqual(
    [...tested.keys()]
      .filter((number) => !CASES.includes(number))
      .map((number) => `${nameOf(number)} is no case`),
    [],
  )
  for (const number of CASES) context.diagnostic(`${nameOf(number)}: ${tested.get(number)?.join(', ')}`)
})
