import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { devicePatterns, parseGlobs } from './device-options.ts'
import { Refusal } from './refusal.ts'

describe('patterns of device names', () => {
  test('have commas between them, and an option that is given again adds to them', () => {
    assert.deepEqual(parseGlobs('eth*, bond0,'.slice(0, -1)), ['eth*', 'bond0'])
    assert.deepEqual(parseGlobs('wg?', ['eth*']), ['eth*', 'wg?'])
  })
  for (const text of ['', ',', 'eth0,,eth1', 'eth[0-9]', 'a/b', 'a b', 'sixteen-letters-']) {
    test(`${JSON.stringify(text)} is refused`, () => {
      assert.throws(() => parseGlobs(text), Refusal)
    })
  }
})

test('of all options only the patterns are taken', () => {
  const patterns = { externalInterfaces: ['eth*'], podInterfaces: [], ignoreInterfaces: [] }
  const read = { ...patterns, nodeName: 'n1' }
  assert.deepEqual(devicePatterns(read), patterns)
})
