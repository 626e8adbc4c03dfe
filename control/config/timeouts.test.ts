import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseTimeout } from './timeouts.ts'

describe('a duration as Go writes it', () => {
  const rows: [text: string, seconds: number][] = [
    ['24h', 86_400],
    ['24h0m0s', 86_400],
    ['1h30m', 5400],
    ['90s', 90],
    ['1.5m', 90],
    ['1500ms', 2],
    ['0', 7],
    ['0s', 7],
    ['0h0m0s', 7],
  ]
  for (const [text, seconds] of rows) it(text, () => assert.equal(parseTimeout(text, 7), seconds))
  for (const text of ['', '24', 'h', '1d', '1h 30m', '-1s', '1h30', '999999999h']) {
    it(`(${JSON.stringify(text)} is none)`, () =>
      assert.throws(() => parseTimeout(text, 7), {
        message: 'It takes a duration such as 24h, 1h30m or 90s.',
      }))
  }
})
