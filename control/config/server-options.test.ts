import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseBindAddress } from './server-options.ts'

test('where a server listens', () => {
  for (const [text, address, port] of [
    ['0.0.0.0:10256', '0.0.0.0', 10_256],
    ['[::]:80', '::', 80],
    ['[2001:DB8::1]:80', '2001:db8::1', 80],
    [':80', '0.0.0.0', 80],
    ['10.0.0.1', '10.0.0.1', 9],
    ['::1', '::1', 9],
  ] as const) {
    assert.deepEqual(parseBindAddress(text, 9), { address, port }, text)
  }
  for (const text of ['', ':0', '0.0.0.0:0', '[::]:0']) assert.equal(parseBindAddress(text, 9), 'off', text)
  for (const text of ['host:80', '10.0.0.1:70000', '10.0.0.1:', '2001:db8::1]:80', 'x', '[10.0.0.1]:80']) {
    assert.throws(() => parseBindAddress(text, 9), /It takes ADDRESS:PORT/, text)
  }
})
