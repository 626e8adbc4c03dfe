import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseNodePortAddresses, parseNodePortRange } from './node-port-options.ts'
import { Refusal } from './refusal.ts'

describe('--nodeport-addresses', () => {
  const good: readonly (readonly [string, readonly string[], readonly string[] | 'primary'])[] = [
    ['nothing: every address', [''], []],
    ['ranges, canonical', ['192.168.0.7/16, 2001:DB8::/64'], ['192.168.0.0/16', '2001:db8::/64']],
    ['given twice: added', ['192.168.0.0/16', '10.0.0.0/8'], ['192.168.0.0/16', '10.0.0.0/8']],
    ['primary', ['primary'], 'primary'],
  ]
  for (const [name, texts, expected] of good) {
    test(name, () => {
      const read = texts.reduce<ReturnType<typeof parseNodePortAddresses>>(
        (before, text) => parseNodePortAddresses(text, before),
        [],
      )
      assert.deepEqual(read, expected)
    })
  }

  for (const text of ['192.168.0.1', 'eth0', 'primary,10.0.0.0/8', '10.0.0.0/8,', '10.0.0.0/33']) {
    test(`${text} is refused`, () => {
      assert.throws(() => parseNodePortAddresses(text, []), Refusal)
    })
  }
  test('primary goes with no range of another time', () => {
    assert.throws(() => parseNodePortAddresses('primary', ['10.0.0.0/8']), Refusal)
    assert.throws(() => parseNodePortAddresses('10.0.0.0/8', 'primary'), Refusal)
  })
})

describe('--service-node-port-range', () => {
  test('two ports', () => {
    assert.deepEqual(parseNodePortRange('20000-22767'), { first: 20_000, last: 22_767 })
    assert.deepEqual(parseNodePortRange('2048-65535'), { first: 2048, last: 65_535 })
  })
  for (const text of ['', '30000', '30000-', '32767-30000', '0-100', '30000-65536', '30000+100', 'a-b']) {
    test(`${text} is refused`, () => {
      assert.throws(() => parseNodePortRange(text), /two ports/)
    })
  }
  test('one that leaves no ports for masquerading is refused', () => {
    assert.throws(() => parseNodePortRange('1-65535'), /It must leave 1024 ports in a row from 1024 to 60999/)
    assert.throws(() => parseNodePortRange('2047-65535'), /It must leave/)
  })
})
