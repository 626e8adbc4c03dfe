import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { type RunCommand, runCommand } from './command.ts'
import { rulesThatMiss } from './foreign-rules.ts'
import { readForeignRules } from './read-foreign-rules.ts'

const NAMESPACE = `slt${process.pid.toString()}fr`
const IN_NAMESPACE = ['netns', 'exec', NAMESPACE] as const

const inNamespace: RunCommand = (argv, input) => runCommand(['ip', ...IN_NAMESPACE, ...argv], input)

function run(argv: readonly string[], input = ''): void {
  execFileSync('ip', [...IN_NAMESPACE, ...argv], { input, stdio: ['pipe', 'ignore', 'pipe'] })
}

const NFT = `
table inet sluice {
  chain pre { type filter hook prerouting priority raw; policy accept; tcp dport 30080 drop; }
}
table inet mine {
  set blocked { type ipv4_addr; elements = { 10.96.0.1 } }
  chain inner {
    udp dport 30053 drop
  }
  chain pre {
    type filter hook prerouting priority raw + 5; policy accept;
    ip daddr @blocked drop
    ct state invalid drop
    meta l4proto udp jump inner
  }
  chain late { type filter hook prerouting priority filter; policy accept; tcp dport 30080 drop; }
}
table ip kube-proxy {
  map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.1 . tcp . 443 : accept } }
  chain services {
    ip daddr . meta l4proto . th dport vmap @service-ips
  }
  chain nat-prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }
}
`

before(() => {
  execFileSync('ip', ['netns', 'add', NAMESPACE])
  run(
    ['nft', '-f', '-'],
    NFT.replaceAll(/; (?=\w[^;]*; })/g, ';\n')
      .replaceAll('; }', '\n}')
      .replaceAll(/(chain \w+ \{) /g, '$1\n'),
  )
  run([
    'iptables-nft',
    '-t',
    'mangle',
    '-A',
    'PREROUTING',
    '-p',
    'tcp',
    '--dport',
    '30080',
    '-j',
    'MARK',
    '--set-mark',
    '1',
  ])
  run(['ip6tables-nft', '-t', 'raw', '-A', 'PREROUTING', '-d', 'fd96::1', '-j', 'DROP'])
  run(['iptables-legacy', '-t', 'raw', '-A', 'PREROUTING', '-p', 'udp', '-j', 'CT', '--notrack'])
  run(['iptables-legacy', '-t', 'raw', '-A', 'PREROUTING', '-p', 'tcp', '--dport', '22', '-j', 'ACCEPT'])
  run(['iptables-legacy', '-t', 'nat', '-N', 'KUBE-SERVICES'])
  run(['iptables-legacy', '-t', 'nat', '-N', 'KUBE-PROXY-CANARY'])
  run(['iptables-legacy', '-t', 'nat', '-A', 'PREROUTING', '-j', 'KUBE-SERVICES'])
  const portal = ['-d', '10.96.0.1', '-p', 'tcp', '--dport', '443', '-j', 'ACCEPT']
  run(['iptables-legacy', '-t', 'nat', '-A', 'KUBE-SERVICES', ...portal])
})
after(() => {
  spawnSync('ip', ['netns', 'delete', NAMESPACE])
})

test('rules of every flavour that see less are found, of both families, and nothing else is', async () => {
  const chains = await readForeignRules({
    run: inNamespace,
    ownTable: 'inet sluice',
    legacyTables: async (family) => {
      const { stdout } = await inNamespace(['cat', `/proc/net/${family}_tables_names`])
      return stdout.split('\n')
    },
  })
  const found = rulesThatMiss(chains, {
    nodeAddresses: new Set(['192.168.1.11', 'fd00::11']),
    nodePorts: { first: 30_000, last: 32_767 },
    frontends: [
      { address: '10.96.0.1', port: 443 },
      { address: 'fd96::1', port: 443 },
    ],
  })
  const texts = found.map(
    ({ tool, family, table, chain, effect, rule }) =>
      `${tool} ${family} ${table} ${chain}: ${effect}: ${rule.replace(/meta l4proto tcp (?=tcp )| counter packets \d+ bytes \d+/g, '')}`,
  )
  assert.deepEqual(texts.sort(), [
    'iptables-legacy ip nat PREROUTING: idle: -j KUBE-SERVICES',
    'iptables-legacy ip raw PREROUTING: untracks: -p udp -j CT --notrack',
    'nft inet mine inner: sees less: udp dport 30053 drop',
    'nft inet mine pre: sees less: ip daddr @blocked drop',
    'nft ip kube-proxy nat-prerouting: idle: jump services',
    'nft ip mangle PREROUTING: sees less: tcp dport 30080 meta mark set 0x1',
    'nft ip6 raw PREROUTING: sees less: ip6 daddr fd96::1 drop',
  ])
})

test('where there is nothing to list with, nothing is found', async () => {
  const nothing: RunCommand = async () => ({ code: undefined, stdout: '', stderr: 'ENOENT' })
  const found = await readForeignRules({
    run: nothing,
    ownTable: 'inet sluice',
    legacyTables: async () => ['raw'],
  })
  assert.deepEqual(
    rulesThatMiss(found, { nodeAddresses: new Set(), nodePorts: { first: 1, last: 2 }, frontends: [] }),
    [],
  )
})
