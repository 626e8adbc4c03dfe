import assert from 'node:assert/strict'
import { test } from 'node:test'
import { durationText, parseDuration, SWITCHES, TEXTS } from './kinds.ts'

test('durations, as Go reads and writes them', () => {
  for (const [text, milliseconds, written = text] of [
    ['24h0m0s', 86_400_000],
    ['1h30m', 5_400_000, '1h30m0s'],
    ['1m30s', 90_000],
    ['15m0s', 900_000],
    ['90s', 90_000, '1m30s'],
    ['1.5s', 1500],
    ['0.1s', 100, '100ms'],
    ['500ms', 500],
    ['1500ms', 1500, '1.5s'],
    ['0s', 0],
    ['0', 0, '0s'],
    ['-1s', -1000],
    ['+1s', 1000, '1s'],
    ['250us', 0.25, '0.25ms'],
  ] as const) {
    assert.equal(parseDuration(text), milliseconds, text)
    assert.equal(durationText(milliseconds), written)
  }
  for (const text of ['', '1', 's', '1d', '1h 2m', '1h2', 'h1', '--1s']) {
    assert.equal(parseDuration(text), undefined, text)
  }
})

test('lists and switches, as the text of a flag', () => {
  assert.deepEqual(TEXTS.fromText('a, b'), ['a', 'b'])
  assert.deepEqual(TEXTS.fromText(''), [])
  assert.deepEqual(SWITCHES.fromText('A=true,B=false'), { A: true, B: false })
  assert.throws(() => SWITCHES.read(SWITCHES.fromText('A')), /It takes names with true or false/)
})
