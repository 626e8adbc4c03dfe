import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ForeignChain, type RuleFinding, rulesThatMiss, type Served } from './foreign-rules.ts'
import { parseIptablesRules, parseNftChains, parseNftRules } from './rule-text.ts'

const SERVED: Served = {
  nodeAddresses: new Set(['192.168.1.11', '10.96.0.10', 'fd00::11']),
  nodePorts: { first: 30_000, last: 32_767 },
  frontends: [
    { address: '10.96.0.1', port: 443 },
    { address: 'fd96::1', port: 443 },
  ],
}

const findingsOf = (
  fields: Partial<ForeignChain>,
  rules: ForeignChain['rules'],
  served: Served,
): readonly RuleFinding[] =>
  rulesThatMiss(
    [
      {
        tool: 'nft',
        family: 'ip',
        table: 'raw',
        name: 'PREROUTING',
        isNat: false,
        rules,
        chains: new Map(),
        ...fields,
      },
    ],
    served,
  )

type Row = readonly [rule: string, effect: RuleFinding['effect'] | undefined]

describe("iptables' rules in raw and mangle", () => {
  const rows: readonly Row[] = [
    ['-p tcp -m tcp --dport 30080 -j DROP', 'sees less'],
    ['-p tcp -m multiport --dports 22,31000:31010 -j ACCEPT', 'sees less'],
    ['-p udp -m udp --dport 30053 -j CT --notrack', 'sees less'],
    ['-d 10.96.0.0/12 -p tcp -j MARK --set-xmark 0x1/0xffffffff', 'sees less'],
    ['-d 192.168.1.11/32 -j DROP', 'sees less'],
    ['-m set --match-set blocked dst -j DROP', 'sees less'],
    ['-m addrtype --dst-type LOCAL -j DROP', 'sees less'],
    ['-m comment --comment "a \\"-d\\" --dport 30080" -p tcp -m tcp --dport 30080 -j DROP', 'sees less'],
    ['-j CT --notrack', 'untracks'],
    ['-p udp -j NOTRACK', 'untracks'],
    // What these see is the same after translation, or was never translated.
    ['-m rpfilter --invert -j DROP', undefined],
    ['-s 203.0.113.0/24 -j DROP', undefined],
    ['-p tcp -m tcp --tcp-flags FIN,SYN FIN,SYN -j DROP', undefined],
    ['-p tcp -m tcp ! --dport 30080 -j DROP', undefined],
    ['! -d 192.168.1.11/32 -j DROP', undefined],
    ['-m comment --comment "-d 10.96.0.1 --dport 30080" -j DROP', undefined],
    ['-p tcp -m tcp --dport 22 -j ACCEPT', undefined],
    ['-p icmp -d 192.168.1.11/32 -j DROP', undefined],
    ['-i lo -j CT --notrack', undefined],
    ['-d 224.0.0.0/4 -j DROP', undefined],
    ['-p tcp -m tcp --dport 30080 -j RETURN', undefined],
    ['-p tcp -m tcp --dport 30080', undefined],
    // NodeLocal DNSCache, whose address is an interface's of the node.
    ['-d 10.96.0.10/32 -p udp -m udp --dport 53 -j CT --notrack', undefined],
    ['-d 169.254.20.10/32 -p udp -m udp --dport 53 -j CT --notrack', undefined],
  ]
  for (const [rule, effect] of rows) {
    test(`${rule}: ${effect ?? 'harmless'}`, () => {
      const rules = parseIptablesRules(`-P PREROUTING ACCEPT\n-A PREROUTING ${rule}\n`)
      const findings = findingsOf({ tool: 'iptables-legacy' }, rules, SERVED)
      assert.deepEqual(
        findings.map((finding) => finding.effect),
        effect === undefined ? [] : [effect],
      )
      for (const finding of findings) assert.equal(finding.rule, rule)
    })
  }
})

describe("nft's rules", () => {
  const rows: readonly Row[] = [
    ['tcp dport 30080 counter packets 7 bytes 420 drop', 'sees less'],
    ['tcp dport { 22, 30000-30100 } drop comment "x"', 'sees less'],
    ['ip daddr @blocked drop', 'sees less'],
    ['ip daddr { 1.2.3.4, 10.96.0.1 } drop', 'sees less'],
    ['ip6 daddr fd96::1 drop', 'sees less'],
    ['ip daddr . tcp dport { 1.2.3.4 . 80 } drop', 'sees less'],
    ['tcp dport vmap { 80 : drop, 81 : jump other }', 'sees less'],
    ['ip daddr . meta l4proto . th dport vmap @service-ips', 'sees less'],
    ['fib daddr type local udp dport 30053 drop', 'sees less'],
    ['meta l4proto tcp xt match "u32" counter packets 0 bytes 0 drop', 'sees less'],
    ['notrack', 'untracks'],
    ['udp dport 53 notrack', undefined],
    ['tcp dport != 30080 drop', undefined],
    ['ip saddr 203.0.113.0/24 drop', undefined],
    ['ct state invalid drop', undefined],
    ['iifname "lo" notrack', undefined],
    ['meta l4proto icmp ip daddr 192.168.1.11 drop', undefined],
    ['ip6 daddr fd00::99 drop', undefined],
    ['log prefix "tcp dport 30080"', undefined],
  ]
  for (const [rule, effect] of rows) {
    test(`${rule}: ${effect ?? 'harmless'}`, () => {
      const chain = 'type filter hook prerouting priority -300; policy accept;'
      const text = `table inet raw {\n\tchain pre {\n\t\t${chain}\n\t\t${rule}\n\t}\n}\n`
      const findings = findingsOf({ family: 'inet' }, parseNftRules(text), SERVED)
      assert.deepEqual(
        findings.map((finding) => finding.effect),
        effect === undefined ? [] : [effect],
      )
    })
  }
})

test('a rule of one family does not concern the addresses of the other', () => {
  const served = { ...SERVED, nodeAddresses: new Set(['192.168.1.11']), frontends: [] }
  const rules = parseIptablesRules('-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP')
  assert.equal(findingsOf({ family: 'ip' }, rules, served).length, 1)
  assert.equal(findingsOf({ family: 'ip6' }, rules, served).length, 0)
})

test('where nobody knows the services, an address that is not the node’s may be one', () => {
  const served = { ...SERVED, frontends: undefined }
  const isFound = (rule: string) =>
    findingsOf({}, parseIptablesRules(`-A PREROUTING ${rule}`), served).length === 1
  assert.equal(isFound('-d 10.96.0.7/32 -p tcp -m tcp --dport 80 -j DROP'), true)
  assert.equal(isFound('-d 10.96.0.10/32 -p udp -m udp --dport 53 -j CT --notrack'), false)
  assert.equal(isFound('-p udp -m udp --dport 53 -j MARK'), false)
})

describe('chains', () => {
  const rules = (text: string) => parseIptablesRules(text.replaceAll(/^/gm, '-A X '))
  const cali = new Map([
    ['cali-PREROUTING', rules('-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-i eth0 -j cali-pri')],
    ['cali-pri', rules('-p tcp -m multiport --dports 30080 -j MARK --set-xmark 0x1/0x1\n-j RETURN')],
    ['empty', []],
  ])

  test('are followed, what rules on the way ask for counts, and empty ones are nothing', () => {
    const base = rules(
      '-m comment --comment "cali:x" -j cali-PREROUTING\n-p tcp -m tcp --dport 30081 -j empty',
    )
    const findings = findingsOf({ chains: cali }, base, SERVED)
    assert.deepEqual(
      findings.map(({ chain, rule }) => `${chain}: ${rule}`),
      ['cali-pri: -p tcp -m multiport --dports 30080 -j MARK --set-xmark 0x1/0x1'],
    )
    const end = new Map([['end', rules('-j DROP')]])
    assert.equal(findingsOf({ chains: end }, rules('-p tcp -m tcp --dport 30081 -j end'), SERVED).length, 1)
    assert.equal(findingsOf({ chains: end }, rules('-p tcp -m tcp --dport 22 -j end'), SERVED).length, 0)
  })

  test('that go round end', () => {
    const round = new Map([['a', rules('-j a')]])
    assert.deepEqual(findingsOf({ chains: round }, rules('-j a'), SERVED), [])
  })

  test('of another proxy are told once for each way in; host ports are nobody’s', () => {
    const kube = new Map([
      [
        'KUBE-SERVICES',
        rules(
          '-d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-A\n-d 10.96.0.1/32 -p tcp -j KUBE-SVC-B',
        ),
      ],
      ['HOSTPORT', rules('-p tcp -m multiport --dports 8080 -j DNAT')],
    ])
    const base = rules(
      '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES\n-m addrtype --dst-type LOCAL -j HOSTPORT',
    )
    const findings = findingsOf({ table: 'nat', isNat: true, chains: kube }, base, SERVED)
    assert.deepEqual(
      findings.map(({ chain, rule, effect }) => [chain, rule, effect]),
      [['PREROUTING', '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES', 'idle']],
    )
  })
})

test('base chains of IP are read with their priorities, others are left out', () => {
  const text = `table inet mine {
\tchain other {
\t}
\tchain pre {
\t\ttype filter hook prerouting priority -295; policy accept;
\t}
}
table netdev nd {
\tchain in {
\t\ttype filter hook ingress device "lo" priority -500; policy accept;
\t}
}
table ip nat {
\tchain PREROUTING {
\t\ttype nat hook prerouting priority -100; policy accept;
\t}
}
`
  assert.deepEqual(parseNftChains(text), [
    { family: 'inet', table: 'mine', name: 'pre', type: 'filter', hook: 'prerouting', priority: -295 },
    { family: 'ip', table: 'nat', name: 'PREROUTING', type: 'nat', hook: 'prerouting', priority: -100 },
  ])
})
