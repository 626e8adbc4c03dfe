import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { NodeAddress } from '../../layout/node-addresses.ts'
import type { Choice, FrontendKind, ServicePort } from '../../model/types.ts'
import { outputChains } from './local-output.ts'
import { backend, outputPort } from './local-output-fixtures.ts'

const ADDRESSES: readonly NodeAddress[] = [
  { address: '127.0.0.1', nodePort: true, loopback: true },
  { address: '192.168.0.3', nodePort: true, loopback: false },
  { address: '192.168.0.2', nodePort: true, loopback: false },
  { address: '172.17.0.1', nodePort: false, loopback: false },
  { address: 'fd00::2', nodePort: true, loopback: false },
]

const at = (kind: FrontendKind, address?: string) => [{ kind, address, port: 80 }]
const LOCAL: Choice = { list: 'local', whenEmpty: 'drop', masquerade: 'never' }
const two = [backend('10.1.0.1', 90), backend('10.1.0.2', 91)]

/** The rules of `local_refuse`, then those of `local_output`. */
const rows: readonly [string, ServicePort, string[]][] = [
  [
    'a ClusterIP',
    outputPort({ frontends: at('ClusterIP', '10.96.0.1'), backends: two }),
    [
      'ip daddr { 10.96.0.1 } sctp dport 80 dnat ip to numgen random mod 2 map { 0 : 10.1.0.1 . 90, 1 : 10.1.0.2 . 91 }',
    ],
  ],
  [
    'IPv6',
    outputPort({
      family: 'ipv6',
      frontends: at('ExternalIP', 'fd96::1'),
      backends: [backend('fd01::1', 90)],
    }),
    ['ip6 daddr { fd96::1 } sctp dport 80 dnat ip6 to numgen random mod 1 map { 0 : fd01::1 . 90 }'],
  ],
  [
    'a node port, on the addresses that accept it but loopback',
    outputPort({ frontends: at('NodePort'), backends: [backend('10.1.0.1', 90)] }),
    [
      'ip daddr { 192.168.0.2, 192.168.0.3 } sctp dport 80 dnat ip to numgen random mod 1 map { 0 : 10.1.0.1 . 90 }',
    ],
  ],
  [
    'affinity',
    outputPort({ frontends: at('ClusterIP', '10.96.0.1'), backends: two, affinitySeconds: 60 }),
    [
      'ip daddr { 10.96.0.1 } sctp dport 80 dnat ip to jhash ip saddr mod 2 seed 0x534c5549 map { 0 : 10.1.0.1 . 90, 1 : 10.1.0.2 . 91 }',
    ],
  ],
  [
    'backends that drain are in no list',
    outputPort({ frontends: at('ClusterIP', '10.96.0.1'), backends: two, cluster: [1] }),
    ['ip daddr { 10.96.0.1 } sctp dport 80 dnat ip to numgen random mod 1 map { 0 : 10.1.0.2 . 91 }'],
  ],
  [
    'the list that internal clients get',
    outputPort({ frontends: at('ClusterIP', '10.96.0.1'), backends: two, local: [0] }, { ClusterIP: LOCAL }),
    ['ip daddr { 10.96.0.1 } sctp dport 80 dnat ip to numgen random mod 1 map { 0 : 10.1.0.1 . 90 }'],
  ],
  [
    'an empty list that rejects',
    outputPort({ frontends: at('ClusterIP', '10.96.0.1') }),
    ['ip daddr { 10.96.0.1 } sctp dport 80 ct state new reject with icmp type prot-unreachable'],
  ],
  [
    'an empty list that rejects, in IPv6',
    outputPort({ family: 'ipv6', frontends: at('ClusterIP', 'fd96::1') }),
    ['ip6 daddr { fd96::1 } sctp dport 80 ct state new reject with icmpv6 type port-unreachable'],
  ],
  [
    'TCP and UDP of a service for sockets of the kernel',
    outputPort({
      protocol: 'TCP',
      frontends: at('ClusterIP', '10.96.0.1'),
      backends: [backend('10.1.0.1', 90)],
    }),
    ['ip daddr { 10.96.0.1 } tcp dport 80 dnat ip to numgen random mod 1 map { 0 : 10.1.0.1 . 90 }'],
  ],
  [
    'TCP of nobody',
    outputPort({ protocol: 'TCP', family: 'ipv6', frontends: at('ClusterIP', 'fd96::1') }),
    ['ip6 daddr { fd96::1 } tcp dport 80 ct state new reject with tcp reset'],
  ],
  [
    'UDP of nobody',
    outputPort({ protocol: 'UDP', frontends: at('ClusterIP', '10.96.0.1') }),
    ['ip daddr { 10.96.0.1 } udp dport 80 ct state new reject with icmp type port-unreachable'],
  ],
  [
    'an empty list that drops',
    outputPort({ frontends: at('ClusterIP', '10.96.0.1'), backends: two }, { ClusterIP: LOCAL }),
    ['ip daddr { 10.96.0.1 } sctp dport 80 ct state new drop'],
  ],
  [
    'a node outside the source ranges, which guard the load balancer only',
    outputPort({
      frontends: [...at('LoadBalancer', '192.0.2.1'), ...at('ExternalIP', '192.0.2.2')],
      backends: [backend('10.1.0.1', 90)],
      sourceRanges: ['198.51.100.0/24'],
      nodeAllowed: false,
    }),
    [
      'ip daddr { 192.0.2.1 } sctp dport 80 ct state new drop',
      'ip daddr { 192.0.2.2 } sctp dport 80 dnat ip to numgen random mod 1 map { 0 : 10.1.0.1 . 90 }',
    ],
  ],
]

describe('the rules for a service port', () => {
  for (const [name, port, rules] of rows) {
    test(name, () => {
      const chains = outputChains([port], ADDRESSES)
      assert.deepEqual(
        chains.map((chain) => [chain.name, chain.type, chain.hook, chain.priority]),
        [
          ['local_refuse', 'filter', 'output', -110],
          ['local_output', 'nat', 'output', -101],
        ],
      )
      assert.deepEqual(
        chains.flatMap((chain) => chain.rules.map((rule) => rule.text)),
        rules,
      )
    })
  }
})

test('no service port, no chain', () => {
  assert.deepEqual(outputChains([], ADDRESSES), [])
})

test('no address of the family, no rule for node ports', () => {
  const port = outputPort({ frontends: at('NodePort'), backends: two })
  assert.deepEqual(
    outputChains([port], []).flatMap(({ rules }) => rules),
    [],
  )
})

test('a comment names the service, tells every change, and is as short as nft takes it', () => {
  const comment = (fields: Partial<ServicePort>) =>
    outputChains(
      [outputPort({ frontends: at('ClusterIP', '10.96.0.1'), backends: two, ...fields })],
      ADDRESSES,
    ).flatMap(({ rules }) => rules)[0]?.comment ?? ''
  assert.match(comment({}), /^default\/web [0-9a-f]{16}$/)
  assert.notEqual(comment({}), comment({ cluster: [0] }))
  assert.equal(comment({}), comment({}))
  assert.ok(comment({ namespace: 'n'.repeat(63), name: 's'.repeat(63) }).length < 128)
})
