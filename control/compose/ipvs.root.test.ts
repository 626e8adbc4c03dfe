/**
 * What kube-proxy's ipvs mode makes in the kernel, made by the tools that everybody has for it, and taken away by the
 * command: virtual servers, sets, rules that look into them, and the device with the addresses. Needs a kernel with IPVS.
 */

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, beforeEach, describe, test } from 'node:test'
import { enterOwnNetwork } from '../../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)

const PROGRAM = join(import.meta.dirname, '../../tools/setup/sluice.mjs')
const FAMILIES = [
  { iptables: 'iptables', prefix: 'KUBE-', family: 'inet', ip: '10.96.0.', backend: '10.244.1.2', bits: 32 },
  { iptables: 'ip6tables', prefix: 'KUBE-6-', family: 'inet6', ip: 'fd96::', backend: 'fd44::2', bits: 128 },
] as const
type FamilyOf = (typeof FAMILIES)[number]

/** Of each, what its members are. */
const SETS: Readonly<Record<string, string>> = {
  'LOOP-BACK': 'hash:ip,port,ip',
  'CLUSTER-IP': 'hash:ip,port',
  'EXTERNAL-IP': 'hash:ip,port',
  'LOAD-BALANCER': 'hash:ip,port',
  'LOAD-BALANCER-FW': 'hash:ip,port',
  'LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'NODE-PORT-TCP': 'bitmap:port range 0-65535',
  'NODE-PORT-UDP': 'bitmap:port range 0-65535',
  'NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'HEALTH-CHECK-NODE-PORT': 'bitmap:port range 0-65535',
  'IPVS-IPS': 'hash:ip',
}

/** The kernel takes no longer name; kube-proxy cuts it there. */
const NAME_MAX = 31
const setName = (prefix: string, name: string): string => `${prefix}${name}`.slice(0, NAME_MAX)

function setsOf({ prefix, family, ip, backend }: FamilyOf): string {
  const create = Object.entries(SETS).map(([name, type]) => {
    return `create ${setName(prefix, name)} ${type}${type.startsWith('hash') ? ` family ${family}` : ''}`
  })
  const add = [
    `LOOP-BACK ${backend},tcp:8443,${backend}`,
    `CLUSTER-IP ${ip}1,tcp:443`,
    `CLUSTER-IP ${ip}10,udp:53`,
    'NODE-PORT-TCP 30080',
    `IPVS-IPS ${ip}1`,
  ].map((member) => `add ${prefix}${member}`)
  return `${[...create, ...add].join('\n')}\n`
}

function rulesOf({ prefix }: FamilyOf): string {
  const looksInto = (set: string, what: string): string =>
    `-m set --match-set ${setName(prefix, set)} ${what}`
  return `*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES ${looksInto('LOAD-BALANCER', 'dst,dst')} -j KUBE-LOAD-BALANCER
-A KUBE-SERVICES ${looksInto('CLUSTER-IP', 'src,dst')} -j KUBE-MARK-MASQ
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
-A KUBE-SERVICES ${looksInto('CLUSTER-IP', 'dst,dst')} -j ACCEPT
-A KUBE-NODE-PORT -p tcp ${looksInto('NODE-PORT-TCP', 'dst')} -j KUBE-MARK-MASQ
-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING ${looksInto('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-IPVS-OUT-FILTER - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
-A INPUT -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT
-A FORWARD -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-NODE-PORT -p tcp ${looksInto('HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT
-A KUBE-PROXY-FIREWALL ${looksInto('LOAD-BALANCER-FW', 'dst,dst')} -j KUBE-SOURCE-RANGES-FIREWALL
-A KUBE-SOURCE-RANGES-FIREWALL ${looksInto('LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src')} -j RETURN
-A KUBE-SOURCE-RANGES-FIREWALL -j DROP
-A KUBE-IPVS-FILTER ${looksInto('CLUSTER-IP', 'dst,dst')} -j RETURN
-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW ${looksInto('IPVS-IPS', 'dst')} -j REJECT
COMMIT
`
}

/** So many of each family: one of each protocol, and one that has no backend. */
const SERVERS = 4

function serversOf({ ip, backend }: FamilyOf): string {
  const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address)
  const [api, dns, other, none] = ['1', '10', '11', '12'].map((end) => bracketed(`${ip}${end}`))
  const real = bracketed(backend)
  return `-A -t ${api}:443 -s rr -p 10800
-a -t ${api}:443 -r ${real}:8443 -m -w 1
-A -u ${dns}:53 -s rr
-a -u ${dns}:53 -r ${real}:53 -m -w 1
-A --sctp-service ${other}:132 -s rr
-A -t ${none}:80 -s wlc
`
}

function run(argv: readonly [string, ...string[]], input = ''): string {
  return execFileSync(argv[0], argv.slice(1), { encoding: 'utf8', input })
}

/** Of somebody else: a set, rules, and a chain of the kubelet's. The kernel's own chains, once there, stay. */
function makeOthers(flavour: string): void {
  run(['ipset', 'restore'], 'create slt-other hash:net\nadd slt-other 192.0.2.0/24\n')
  for (const { iptables, family } of FAMILIES) {
    const masquerades = '-A POSTROUTING -m set --match-set slt-other dst -j MASQUERADE\n'
    run(
      [`${iptables}-${flavour}-restore`],
      `*mangle
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
${family === 'inet' ? masquerades : ''}COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:OTHER - [0:0]
-A FORWARD -j OTHER
COMMIT
`,
    )
  }
}

function makeKubeProxys(flavour: string): void {
  const addresses = FAMILIES.flatMap(({ ip, bits }) =>
    ['1', '10', '11', '12'].map((end) => `address add ${ip}${end}/${bits} dev kube-ipvs0\n`),
  )
  run(['ip', '-batch', '-'], `link add kube-ipvs0 type dummy\n${addresses.join('')}`)
  for (const each of FAMILIES) {
    run(['ipset', 'restore'], setsOf(each))
    run([`${each.iptables}-${flavour}-restore`, '--noflush'], rulesOf(each))
    run(['ipvsadm', '-R'], serversOf(each))
  }
}

/** All that there is of what either makes. */
function inventory(flavour: string): string[] {
  const rules = FAMILIES.map(({ iptables }) =>
    run([`${iptables}-${flavour}-save`])
      .split('\n')
      .filter((line) => !line.startsWith('#'))
      .map((line) => line.replace(/\[\d+:\d+\]/, ''))
      .join('\n'),
  )
  return [...rules, run(['ipset', 'save']), run(['ipvsadm', '-Sn']), run(['ip', '-o', 'link', 'show'])]
}

const cleanUp = (): string => run([process.execPath, PROGRAM, 'cleanup', '--kube-proxy'])

/** The reason to skip; false where there are virtual servers and sets. */
function whyNot(): string | false {
  for (const argv of [
    ['ipvsadm', '-Ln'],
    ['ipset', 'list', '-name'],
  ] as const) {
    const { error, status, stderr } = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' })
    if (error !== undefined) return `${argv[0]} is not installed`
    if (status !== 0) return `this kernel has not what ${argv[0]} is for: ${stderr.trim()}`
  }
  return false
}

describe('sluice cleanup --kube-proxy after the ipvs mode', { skip: whyNot() }, () => {
  const empty = (): void => {
    run(['ipvsadm', '-C'])
    for (const { iptables } of FAMILIES) {
      for (const flavour of ['nft', 'legacy']) {
        const text = ['nat', 'filter', 'mangle'].map((table) => `*${table}\nCOMMIT\n`).join('')
        run([`${iptables}-${flavour}-restore`], text)
      }
    }
    run(['ipset', 'destroy'])
    spawnSync('ip', ['link', 'delete', 'kube-ipvs0'])
  }
  beforeEach(empty)
  after(empty)

  for (const flavour of ['nft', 'legacy']) {
    test(`virtual servers, sets, the device and the rules of iptables-${flavour} go, and others' sets and rules stay`, () => {
      makeOthers(flavour)
      const before = inventory(flavour)
      makeKubeProxys(flavour)
      assert.equal(run(['ipvsadm', '-Sn']).match(/^-A /gm)?.length, 2 * SERVERS)

      const said = cleanUp()
      assert.deepEqual(inventory(flavour), before)
      for (const what of [
        `IPVS virtual servers: ${2 * SERVERS}`,
        'device kube-ipvs0',
        'ipset KUBE-CLUSTER-IP',
        'ipset KUBE-6-LOOP-BACK',
        `iptables-${flavour} chain KUBE-IPVS-FILTER in filter`,
        `ip6tables-${flavour} chain KUBE-LOAD-BALANCER in nat`,
      ]) {
        assert.ok(said.includes(what), `${what} is not in what it says:\n${said}`)
      }
      assert.equal(said.match(/ipset KUBE-/g)?.length, 2 * Object.keys(SETS).length)
      assert.doesNotMatch(cleanUp(), /ipset|IPVS|kube-ipvs0|chain/, 'a second time')
    })
  }

  test("virtual servers where kube-proxy's device is not are somebody else's", () => {
    run(['ipvsadm', '-R'], serversOf(FAMILIES[0]))
    const before = inventory('nft')
    assert.doesNotMatch(cleanUp(), /IPVS/)
    assert.deepEqual(inventory('nft'), before)
  })
})
