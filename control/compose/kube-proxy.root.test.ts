import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { enterOwnNetwork } from '../../tools/packets/own-network.ts'
import { kubeProxies, removeKubeProxy } from './kube-proxy.ts'

enterOwnNetwork(import.meta.filename)

const GOLDEN = join(import.meta.dirname, '../dataplane/iptables/testdata/golden')

/** What kube-proxy 1.36 wrote, as far as this kernel takes it: it may have no packet counters, and no SCTP. */
const golden = (file: string) =>
  readFileSync(join(GOLDEN, file), 'utf8')
    .split('\n')
    .filter((line) => !line.includes('-p sctp'))
    .map((line) => line.replace(/-m nfacct --nfacct-name +\S+ /, ''))
    .join('\n')

const save = (command: string) =>
  execFileSync(`${command}-save`, { encoding: 'utf8' })
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.replace(/\[\d+:\d+\]/, ''))
    .join('\n')

const OF_IPVS_MODE = `*nat
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-XLB-FW5UZ6GTZPQW5PVU - [0:0]
-A KUBE-LOAD-BALANCER -j KUBE-NODE-PORT
COMMIT
*filter
:KUBE-IPVS-FILTER - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
COMMIT
`
const OF_THE_KUBELET = `*mangle
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
COMMIT
`
const OF_OTHERS = `*nat
-A POSTROUTING -o eth9 -j MASQUERADE
COMMIT
*filter
:CNI - [0:0]
-A FORWARD -j CNI
COMMIT
`

for (const flavour of ['nft', 'legacy']) {
  test(`what kube-proxy had in iptables-${flavour} and nftables goes; the kubelet's and others' rules stay`, async () => {
    const restore = (command: string, input: string) =>
      execFileSync(`${command}-restore`, ['--noflush'], { input })
    const commands = [
      [`iptables-${flavour}`, 'iptables-save.txt'],
      [`ip6tables-${flavour}`, 'ip6tables-save.txt'],
    ] as const
    for (const [command] of commands) for (const text of [OF_THE_KUBELET, OF_OTHERS]) restore(command, text)
    // The kernel's own chains come with the first rule, and stay.
    for (const [command, file] of commands) {
      const own = golden(file)
        .split('\n')
        .filter((line) => /^(?:\*|:[A-Z]+ ACCEPT|COMMIT)/.test(line))
      restore(command, `${own.join('\n')}\n`)
    }
    const before = commands.map(([command]) => save(command))
    for (const [command, file] of commands) {
      restore(
        command,
        golden(file)
          .replace(':KUBE-FIREWALL - [0:0]\n', '')
          .replaceAll(/^-A (?:\S+ -j KUBE-FIREWALL|KUBE-FIREWALL .*)\n/gm, ''),
      )
      restore(command, OF_IPVS_MODE)
    }
    for (const family of ['ip', 'ip6'])
      execFileSync('nft', ['-f', '-'], { input: `table ${family} kube-proxy { chain services { }; }` })
    execFileSync('ip', ['link', 'add', 'kube-ipvs0', 'type', 'bridge'])

    const removed = await removeKubeProxy()
    assert.deepEqual(
      commands.map(([command]) => save(command)),
      before,
    )
    for (const what of [
      `iptables-${flavour} chain KUBE-SERVICES in nat`,
      `ip6tables-${flavour} chain KUBE-PROXY-CANARY in mangle`,
      `iptables-${flavour} chain KUBE-IPVS-FILTER in filter`,
      'nft table ip kube-proxy',
      'nft table ip6 kube-proxy',
      'device kube-ipvs0',
    ]) {
      assert.ok(removed.includes(what), what)
    }
    assert.throws(() => execFileSync('ip', ['link', 'show', 'kube-ipvs0'], { stdio: 'pipe' }))
    assert.deepEqual(await removeKubeProxy(), [], 'a second time')
  })
}

test('a kube-proxy that runs is found by its name, on this node only', async () => {
  const isThere = (pid: number | undefined) => pid !== undefined && kubeProxies().includes(pid)
  const start = (argv: readonly string[]) =>
    spawn(argv[0] ?? '', argv.slice(1), { stdio: ['pipe', 'pipe', 'ignore'] })
  const script = 'echo kube-proxy > /proc/self/comm; echo here; read line'
  const here = start(['bash', '-c', script])
  const elsewhere = start(['unshare', '-n', 'bash', '-c', script])
  try {
    await Promise.all([here, elsewhere].map(({ stdout }) => once(stdout, 'data')))
    assert.ok(isThere(here.pid))
    assert.ok(!isThere(elsewhere.pid), 'another node on the same kernel')
  } finally {
    for (const child of [here, elsewhere]) {
      child.stdin.end('\n')
      await once(child, 'exit')
    }
  }
  assert.ok(!isThere(here.pid))
})
