import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type NodePortFacts,
  nodePortWarnings,
  takesNodePorts,
  takesNodePortsEverywhere,
} from './node-ports.ts'

const ADDRESSES = [
  '127.0.0.1',
  '192.168.0.2',
  '192.168.1.2',
  '10.244.1.1',
  '::1',
  '2001:db8::2',
  '2001:db8:1::2',
] as const
const IPS = ['192.168.0.2', '2001:db8::2']

const facts = (
  nodePortAddresses: NodePortFacts['settings']['nodePortAddresses'],
  localhostNodePorts = true,
  ips: readonly string[] = IPS,
): NodePortFacts => ({ ips, settings: { nodePortAddresses, localhostNodePorts } })

const taking = (chosen: NodePortFacts) =>
  ADDRESSES.filter((address) => takesNodePorts(address, chosen)).join(' ')

describe('the addresses that take node ports', () => {
  const IPV6 = '::1 2001:db8::2 2001:db8:1::2'
  const rows: readonly (readonly [string, NodePortFacts, string])[] = [
    ['nothing chosen: all of them', facts([]), ADDRESSES.join(' ')],
    [
      'no loopback ones where those are not wanted',
      facts([], false),
      '192.168.0.2 192.168.1.2 10.244.1.1 2001:db8::2 2001:db8:1::2',
    ],
    ['a range; the other family keeps all', facts(['192.168.0.0/24']), `192.168.0.2 ${IPV6}`],
    [
      'ranges of both families',
      facts(['192.168.0.0/24', '192.168.1.0/24', '2001:db8::/64']),
      '192.168.0.2 192.168.1.2 2001:db8::2',
    ],
    ['a loopback range', facts(['127.0.0.0/8', '::1/128']), '127.0.0.1 ::1'],
    ['a loopback range, but not wanted', facts(['127.0.0.0/8', '::1/128'], false), ''],
    [
      'everything beside a range: everything',
      facts(['0.0.0.0/0', '192.168.0.0/24']),
      `127.0.0.1 192.168.0.2 192.168.1.2 10.244.1.1 ${IPV6}`,
    ],
    ['primary: those that the cluster knows the node by', facts('primary'), '192.168.0.2 2001:db8::2'],
    ['primary of a node known in one family', facts('primary', true, ['192.168.0.2']), `192.168.0.2 ${IPV6}`],
  ]
  for (const [name, chosen, expected] of rows) {
    test(name, () => {
      assert.equal(taking(chosen), expected)
    })
  }
})

describe('a warning for a family that is left wide open though something was chosen', () => {
  const rows: readonly (readonly [string, NodePortFacts, readonly RegExp[]])[] = [
    ['nothing chosen: none', facts([]), []],
    ['both families chosen: none', facts(['192.168.0.0/24', '2001:db8::/64']), []],
    [
      'one family chosen',
      facts(['192.168.0.0/24']),
      [/^there is no range of IPv6 among --nodeport-addresses: in IPv6/],
    ],
    ['primary of both: none', facts('primary'), []],
    ['primary of one', facts('primary', true, ['2001:db8::2']), [/^the node has no address of IPv4 among/]],
  ]
  for (const [name, chosen, expected] of rows) {
    test(name, () => {
      const warnings = nodePortWarnings(chosen)
      assert.equal(warnings.length, expected.length)
      expected.forEach((pattern, i) => {
        assert.match(warnings[i] ?? '', pattern)
      })
    })
  }
})

test('every address takes them where nothing is chosen, or everything', () => {
  const families = (chosen: NodePortFacts) =>
    (['ipv4', 'ipv6'] as const).filter((family) => takesNodePortsEverywhere(family, chosen))
  assert.deepEqual(families(facts([])), ['ipv4', 'ipv6'])
  assert.deepEqual(families(facts(['192.168.0.0/24'])), ['ipv6'])
  assert.deepEqual(families(facts(['192.168.0.0/24', '::/0'])), ['ipv6'])
  assert.deepEqual(families(facts('primary')), [])
  assert.deepEqual(families(facts('primary', true, ['192.168.0.2'])), ['ipv6'])
})
