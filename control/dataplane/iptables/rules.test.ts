import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { makeEndpoint, makePort, makeService, makeSlice } from '../../model/fixtures.ts'
import { probability } from './chain-rules.ts'
import type { NodePortAddresses, RuleSettings } from './rule-settings.ts'
import { type RenderInput, RuleRenderer } from './rules.ts'
import { desiredOf, FIRST, SETTINGS } from './test-kit.ts'

function render(input: Partial<RenderInput>, settings: Partial<RuleSettings> = {}) {
  return new RuleRenderer({ ...SETTINGS, ...settings }).render({ ...FIRST, desired: desiredOf([]), ...input })
}

function rulesOf(chain: string, text: string): readonly string[] {
  return text.split('\n').filter((line) => line.startsWith(`-A ${chain} `))
}

suite('what is there whatever services there are', () => {
  test('both tables, each with its own end; chains before rules', () => {
    assert.equal(
      render({}).text,
      `*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x00004000/0x00004000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`,
    )
  })

  test('another mark, an iptables without --random-fully, a kernel that is liberal about TCP', () => {
    const { text } = render({}, { masqueradeMark: 2 ** 31, randomFully: false, dropInvalid: false })
    assert.match(text, /-A KUBE-MARK-MASQ -j MARK --or-mark 0x80000000\n/)
    assert.match(text, /-j MASQUERADE\n/)
    assert.doesNotMatch(text, /INVALID/)
  })

  test('a counter that the kernel has counts what is dropped as invalid', () => {
    const { text } = render({}, { counters: new Set(['ct_state_invalid_dropped_pkts']) })
    assert.match(text, /--ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP\n/)
  })

  test('KUBE-FIREWALL is written only where node ports answer at 127.0.0.1: else it is the kubelet’s', () => {
    assert.match(render({}).text, /:KUBE-FIREWALL /)
    assert.doesNotMatch(render({}, { localhostNodePorts: false }).text, /KUBE-FIREWALL/)
    assert.doesNotMatch(render({}, { family: 'ipv6' }).text, /KUBE-FIREWALL/)
  })
})

suite('which addresses take node ports', () => {
  const rows: readonly (readonly [
    title: string,
    addresses: NodePortAddresses,
    settings: Partial<RuleSettings>,
    ends: readonly string[],
  ])[] = [
    ['all', 'all', {}, ['-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS']],
    [
      'all but loopback',
      'all',
      { localhostNodePorts: false },
      ['-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -j KUBE-NODEPORTS'],
    ],
    [
      'all of IPv6, where ::1 never does',
      'all',
      { family: 'ipv6' },
      ['-m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS'],
    ],
    [
      'some',
      ['192.168.0.2', '127.0.0.1'],
      {},
      ['-d 192.168.0.2 -j KUBE-NODEPORTS', '-d 127.0.0.1 -j KUBE-NODEPORTS'],
    ],
    [
      'some, and loopback may not',
      ['192.168.0.2', '127.0.0.1'],
      { localhostNodePorts: false },
      ['-d 192.168.0.2 -j KUBE-NODEPORTS'],
    ],
    ['some of IPv6', ['fd00::2', '::1'], { family: 'ipv6' }, ['-d fd00::2 -j KUBE-NODEPORTS']],
    ['none of the node’s', [], {}, []],
  ]
  for (const [title, nodePortAddresses, settings, ends] of rows) {
    test(title, () => {
      const rules = rulesOf('KUBE-SERVICES', render({ nodePortAddresses }, settings).text)
      const nat = rules.filter((rule) => rule.endsWith('KUBE-NODEPORTS'))
      assert.deepEqual(
        nat.map((rule) => rule.replace(/^.*in this chain" /, '')),
        ends,
      )
    })
  }

  test('the jump to node ports comes behind every service', () => {
    const desired = desiredOf([makeService()], [makeSlice([makeEndpoint('10.244.1.1')])])
    assert.match(rulesOf('KUBE-SERVICES', render({ desired }).text).at(-1) ?? '', /-j KUBE-NODEPORTS$/)
  })
})

suite('shares', () => {
  test('ten decimals, as kube-proxy prints them', () => {
    assert.deepEqual([1, 2, 3, 100_001].map(probability), [
      '1.0000000000',
      '0.5000000000',
      '0.3333333333',
      '0.0000099999',
    ])
  })

  for (const [scheduler, shares] of [
    ['random', ['random --probability 0.3333333333', 'random --probability 0.5000000000', undefined]],
    ['round-robin', ['nth --every 3 --packet 0', 'nth --every 2 --packet 0', undefined]],
  ] as const) {
    test(`${scheduler}: each rule takes its share of what those before it left`, () => {
      const endpoints = ['10.244.1.1', '10.244.1.2', '10.244.1.3'].map((address) => makeEndpoint(address))
      const service = makeService({ annotations: { 'sluice.dev/scheduler': scheduler } })
      const { text } = render({ desired: desiredOf([service], [makeSlice(endpoints)]) })
      const draws = text.split('\n').filter((line) => /^-A KUBE-SVC-.*-j KUBE-SEP-/.test(line))
      assert.deepEqual(
        draws.map((line) => /--mode (.*) -j/.exec(line)?.[1]),
        shares,
      )
    })
  }
})

suite('shares by weight', () => {
  const drawsOf = (weights: string, affinity: 'None' | 'ClientIP' = 'None') => {
    const endpoints = ['10.244.1.1', '10.244.1.2', '10.244.1.3'].map((address) => makeEndpoint(address))
    const service = makeService({
      annotations: { 'sluice.dev/scheduler': 'weighted-round-robin', 'sluice.dev/weights': weights },
      sessionAffinity: affinity,
    })
    const { text } = render({ desired: desiredOf([service], [makeSlice(endpoints)]) })
    const lines = text.split('\n').filter((line) => /^-A KUBE-SVC-.*-j KUBE-SEP-/.test(line))
    return lines.map((line) => ({
      to: /-> (\S+):8080"/.exec(line)?.[1],
      match: / -m (?:statistic --mode )?((?:nth|recent) .*) -j/.exec(line)?.[1],
    }))
  }

  test('weighted-round-robin: each turn of a backend is a rule', () => {
    assert.deepEqual(drawsOf('10.244.1.1=3,10.244.1.2=2,*=0,10.244.1.3=1'), [
      { to: '10.244.1.1', match: 'nth --every 6 --packet 0' },
      { to: '10.244.1.2', match: 'nth --every 5 --packet 0' },
      { to: '10.244.1.1', match: 'nth --every 4 --packet 0' },
      { to: '10.244.1.3', match: 'nth --every 3 --packet 0' },
      { to: '10.244.1.2', match: 'nth --every 2 --packet 0' },
      { to: '10.244.1.1', match: undefined },
    ])
  })

  test('who has an affinity has one rule for it, whatever the weight', () => {
    const draws = drawsOf('10.244.1.1=2', 'ClientIP')
    assert.equal(draws.filter(({ match }) => match?.startsWith('recent')).length, 3)
    assert.equal(draws.length, 3 + 4)
  })

  test('there are never more than 256, whatever the weights say, and one for each endpoint', () => {
    const draws = drawsOf('10.244.1.1=65535,10.244.1.2=7')
    assert.ok(draws.length <= 256, `${draws.length}`)
    assert.equal(new Set(draws.map(({ to }) => to)).size, 3)
    assert.equal(draws.at(-1)?.match, undefined, 'the last one takes all that is left')
  })
})

suite('names and order', () => {
  test('what could end a comment does not', () => {
    const desired = desiredOf([makeService({ name: 'a"b\\c' })])
    assert.match(render({ desired }).text, / --comment "default\/a\\"b\\\\c has no endpoints" /)
  })

  test('the longest names fit in the 255 bytes of a comment', () => {
    const longest = 'x'.repeat(63)
    const service = makeService({
      namespace: longest,
      name: longest,
      type: 'LoadBalancer',
      clusterIPs: ['fd00:1111:2222:3333:4444:5555:6666:7777'],
      ports: [makePort({ name: longest, nodePort: 30_080 })],
      loadBalancerIngress: [{ ip: '2001:db8::1', ipMode: 'VIP' }],
      loadBalancerSourceRanges: ['2001:db8:1::/48'],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
    })
    const slice = makeSlice([makeEndpoint('fd00:1111:2222:3333:4444:5555:6666:8888', { nodeName: 'n1' })], {
      namespace: longest,
      serviceName: longest,
      addressType: 'IPv6',
      ports: [{ name: longest, port: 65_535, protocol: 'TCP' }],
    })
    const { text } = render({ desired: desiredOf([service], [slice]) }, { family: 'ipv6' })
    const comments = [...text.matchAll(/--comment "([^"]*)"/g)].map(([, comment = '']) => comment.length)
    assert.ok(comments.length > 10)
    assert.ok(Math.max(...comments) <= 255, `${Math.max(...comments)}`)
  })

  test('services stand in the order of their names, whatever the order they came in', () => {
    const services = ['b', 'c', 'a'].map((name, i) => makeService({ name, clusterIPs: [`10.96.0.${i + 1}`] }))
    const texts = [services, services.toReversed()].map((all) => render({ desired: desiredOf(all) }).text)
    assert.equal(texts[0], texts[1])
    const order = rulesOf('KUBE-SERVICES', texts[0] ?? '').flatMap(
      (rule) => /default\/(\w) /.exec(rule)?.[1] ?? [],
    )
    assert.deepEqual(order, ['a', 'b', 'c'])
  })

  test('a port of the other family is not there', () => {
    const dual = makeService({
      clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
      ports: [makePort({ nodePort: 30080 })],
    })
    assert.doesNotMatch(render({ desired: desiredOf([dual]) }).text, /fd00/)
    assert.doesNotMatch(render({ desired: desiredOf([dual]) }, { family: 'ipv6' }).text, /10\.96/)
  })
})

suite('numbers', () => {
  test('rules are counted in the chains, and in the text', () => {
    const desired = desiredOf([makeService()], [makeSlice([makeEndpoint('10.244.1.1')])])
    const all = render({ desired })
    assert.deepEqual(all.written, { filter: 4, nat: 10 })
    assert.deepEqual(all.rules, all.written)
    assert.equal(all.endpoints, 1)
    const partial = render({ desired, base: { desired, changed: new Set(), nodePortAddresses: [] } })
    assert.deepEqual(partial.written, { filter: 4, nat: 6 })
    assert.deepEqual(partial.rules, all.rules)
  })

  test('from 1001 endpoints on their rules go without comments; those of services keep them', () => {
    const addresses = Array.from({ length: 1001 }, (_, i) => `10.244.${i >> 8}.${i & 255}`)
    const of = (count: number) =>
      desiredOf(
        [makeService()],
        [makeSlice(addresses.slice(0, count).map((address) => makeEndpoint(address)))],
      )
    assert.match(render({ desired: of(1000) }).text, /"default\/web -> 10\.244\.0\.1:8080"/)
    const { text } = render({ desired: of(1001) })
    assert.doesNotMatch(text, /->/)
    assert.match(text, /-A KUBE-SEP-\w+ -s 10\.244\.0\.1 -j KUBE-MARK-MASQ\n/)
    assert.match(text, /"default\/web cluster IP"/)
  })
})
