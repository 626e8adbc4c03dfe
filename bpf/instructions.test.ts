import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  currentCounts,
  differences,
  installedCompilers,
  recordedCounts,
  UPDATE_COMMAND,
} from '../tools/packets/instructions.ts'

const compilers = installedCompilers()
const record = recordedCounts()

for (const major of Object.keys(record)) {
  const compiler = compilers.find((each) => String(each.major) === major)
  const skip = compiler === undefined ? `clang-${major} is not installed` : false
  test(`clang ${major} makes as many instructions as are recorded`, { skip }, () => {
    assert.ok(compiler)
    const changed = differences(record[major] ?? {}, currentCounts(compiler))
    assert.deepEqual(
      changed,
      [],
      `bpf/instructions.json is out of date; write it anew with: ${UPDATE_COMMAND}`,
    )
  })
}

test('some clang that is recorded is installed', {
  skip: compilers.every(({ major }) => record[major] === undefined)
    ? `nothing is recorded of clang ${compilers.map(({ major }) => major).join(', ') || '(none installed)'}`
    : false,
}, () => {
  assert.ok(compilers.some(({ major }) => record[major] !== undefined))
})

test('what differs is named, what is new and what is gone too', () => {
  const was = { datapath4: { programs: { ingress: 37, old: 1 }, functions: { promote: 90 } } }
  const is = { datapath4: { programs: { ingress: 39 }, functions: { promote: 90, fresh: 2 } } }
  assert.deepEqual(differences(was, is), [
    'datapath4 fresh: 2, was not there',
    'datapath4 ingress: 39, was 37',
    'datapath4 old: gone, was 1',
  ])
})
