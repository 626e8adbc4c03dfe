import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import {
  CLIENT,
  type Cluster,
  createCluster,
  FAMILIES,
  type Family,
  formatSocketAddress,
  NODES,
  PODS,
} from '../../../tools/cluster/index.ts'
import { type RunCommand, runCommand } from '../netfilter/command.ts'
import { createNetfilter, type Netfilter, removeNetfilter } from './netfilter.ts'

const MASQUERADE = 1 << 14
const ACCEPT = 1 << 13
const PREFIX = `slt${process.pid.toString()}nf`

function inNamespace(namespace: string): RunCommand {
  return (argv, input) => runCommand(['nsenter', `--net=/run/netns/${namespace}`, '--', ...argv], input)
}

/** Another person's mark, on a bit of their own, which none of our rules may touch. */
const FOREIGN = 1 << 20

function createSubject(run: RunCommand): { netfilter: Netfilter; lines: string[] } {
  const lines: string[] = []
  const netfilter = createNetfilter({
    marks: { masquerade: MASQUERADE, accept: ACCEPT },
    nodePorts: { first: 30_000, last: 32_767 },
    families: ['ipv4', 'ipv6'],
    log: { info: (text) => lines.push(`info ${text}`), warn: (text) => lines.push(`warn ${text}`) },
    run,
  })
  return { netfilter, lines }
}

describe('our rules in a network namespace of their own', () => {
  const namespace = `${PREFIX}-rules`
  const run = inNamespace(namespace)
  const output = async (...argv: string[]): Promise<string> => {
    const result = await run(argv)
    assert.equal(result.code, 0, `${argv.join(' ')}: ${result.stderr}`)
    return result.stdout
  }
  before(() => execFileSync('ip', ['netns', 'add', namespace]))
  after(() => execFileSync('ip', ['netns', 'delete', namespace]))

  test('are installed once, stay as they are, are repaired after a flush, and leave nothing when removed', async () => {
    const { netfilter, lines } = createSubject(run)
    await netfilter.ensure()
    assert.deepEqual(lines, [
      'info installed nft table inet sluice',
      'info installed iptables chain SLUICE-FORWARD',
      'info installed ip6tables chain SLUICE-FORWARD',
    ])
    const rules = async () => [await output('iptables', '-S'), await output('ip6tables', '-S')]
    const installed = await rules()
    const table = await output('nft', 'list', 'table', 'inet', 'sluice')

    await netfilter.ensure()
    assert.equal(lines.length, 3, 'nothing to do the second time')

    lines.length = 0
    await output('nft', 'flush', 'chain', 'inet', 'sluice', 'nat_postrouting')
    await output('iptables', '-F', 'FORWARD')
    await output('ip6tables', '-F', 'SLUICE-FORWARD')
    await netfilter.ensure()
    assert.equal(lines.length, 3)
    assert.match(lines[0] ?? '', /^warn repaired nft table inet sluice/)
    assert.match(lines[1] ?? '', /^warn repaired iptables chain SLUICE-FORWARD/)
    assert.match(lines[2] ?? '', /^warn repaired ip6tables chain SLUICE-FORWARD/)
    assert.deepEqual(await rules(), installed)
    assert.equal(await output('nft', 'list', 'table', 'inet', 'sluice'), table)

    lines.length = 0
    await output('nft', 'flush', 'ruleset')
    await netfilter.ensure()
    assert.equal(lines.length, 3)
    assert.deepEqual(await rules(), installed)

    const { removed } = await removeNetfilter(run)
    assert.deepEqual(removed, [
      'nft table inet sluice',
      'iptables-nft chain SLUICE-FORWARD',
      'ip6tables-nft chain SLUICE-FORWARD',
    ])
    assert.equal((await output('nft', 'list', 'ruleset')).includes('sluice'), false)
    assert.deepEqual(await removeNetfilter(run), { removed: [] })
  })

  test('are ahead of the rules that are there, once', async () => {
    const { netfilter } = createSubject(run)
    await output('iptables', '-A', 'FORWARD', '-j', 'DROP')
    await netfilter.ensure()
    await output('iptables', '-F', 'SLUICE-FORWARD')
    await netfilter.ensure()
    const forward = (await output('iptables', '-S', 'FORWARD')).trim().split('\n')
    assert.equal(forward.length, 3)
    assert.match(forward[1] ?? '', /-j SLUICE-FORWARD$/)
    await removeNetfilter(run)
    assert.deepEqual((await output('iptables', '-S', 'FORWARD')).trim().split('\n'), [
      '-P FORWARD ACCEPT',
      '-A FORWARD -j DROP',
    ])
    await output('iptables', '-F', 'FORWARD')
  })

  test('go into the other flavour too, once its chain would drop', async (context) => {
    const { netfilter, lines } = createSubject(run)
    if ((await run(['iptables-legacy', '-S'])).code !== 0) {
      context.skip('this machine has no legacy iptables')
      return
    }
    await netfilter.ensure()
    assert.equal((await output('iptables-legacy', '-S', 'FORWARD')).trim(), '-P FORWARD ACCEPT')
    lines.length = 0
    await output('iptables-legacy', '-P', 'FORWARD', 'DROP')
    await netfilter.ensure()
    assert.match((await output('iptables-legacy', '-S', 'FORWARD')).trim(), /-j SLUICE-FORWARD$/)
    assert.equal(lines.length, 1)
    await netfilter.ensure()
    assert.equal(lines.length, 1)
    const { removed } = await removeNetfilter(run)
    assert.deepEqual(removed.slice(1).sort(), [
      'ip6tables-nft chain SLUICE-FORWARD',
      'iptables-legacy chain SLUICE-FORWARD',
      'iptables-nft chain SLUICE-FORWARD',
    ])
    await output('iptables-legacy', '-P', 'FORWARD', 'ACCEPT')
  })
})

describe('packets on a node whose FORWARD drops', () => {
  let cluster: Cluster
  let run: RunCommand
  const node = (): ReturnType<Cluster['node']> => cluster.node('n1')

  before(async () => {
    cluster = await createCluster({ prefix: PREFIX, forwardPolicyDrop: true })
    run = inNamespace(node().namespace)
    await createSubject(run).netfilter.ensure()
    await node().exec(['nft', '-f', '-'], {
      input: `table inet witness {
        counter marked {}
        counter foreign {}
        chain after_all { type filter hook postrouting priority 300;
          meta mark & 0x4000 != 0 counter name marked
          meta mark & 0x100000 != 0 counter name foreign
        }
      }`,
    })
  })
  after(() => cluster.remove())

  /** Marks what comes from the client, as the programs would at ingress. */
  async function withMark(family: Family, mark: number, act: () => Promise<void>): Promise<void> {
    const command = family === 'ipv4' ? 'iptables' : 'ip6tables'
    const rule = ['PREROUTING', '-s', CLIENT[family], '-j', 'MARK', '--or-mark', `0x${mark.toString(16)}`]
    await node().exec([command, '-t', 'mangle', '-A', ...rule])
    try {
      await act()
    } finally {
      await node().exec([command, '-t', 'mangle', '-D', ...rule])
    }
  }

  async function counter(name: string): Promise<number> {
    const { stdout } = await node().exec(['nft', '-j', 'list', 'counter', 'inet', 'witness', name])
    return Number(/"packets": (\d+)/.exec(stdout)?.[1])
  }

  for (const family of FAMILIES) {
    const target = formatSocketAddress({ address: PODS.p1[family], port: 8080 })
    const [gateway] = (family === 'ipv4' ? NODES.n1.bridge : NODES.n1.bridge6).split('/')

    test(`without a mark they are dropped as before (${family})`, async () => {
      assert.deepEqual(await cluster.client.ask({ to: target, timeoutMs: 300 }), {
        ok: false,
        error: 'TIMEOUT',
      })
    })

    test(`with the accept mark they pass, and so do the answers, with the client seen (${family})`, async () => {
      await withMark(family, ACCEPT, async () => {
        const answer = await cluster.client.ask({ to: target })
        assert.equal(answer.ok && answer.peer.address, CLIENT[family])
      })
    })

    for (const protocol of ['tcp', 'udp'] as const) {
      test(`with the masquerade mark ${protocol} comes from the node, from a port outside the node ports (${family})`, async () => {
        const to = protocol === 'tcp' ? target : formatSocketAddress({ address: PODS.p1[family], port: 5353 })
        await withMark(family, ACCEPT | MASQUERADE, async () => {
          const answers = await cluster.client.request({ to, protocol, count: 20 })
          for (const answer of answers) {
            assert.ok(answer.ok, JSON.stringify(answer))
            assert.equal(answer.peer.address, gateway)
            assert.ok(answer.peer.port >= 1024 && answer.peer.port <= 29_999, answer.peer.port.toString())
          }
        })
      })
    }

    test(`the masquerade mark is cleared from every packet of a connection, and no other bit is (${family})`, async () => {
      const [marked, foreign] = [await counter('marked'), await counter('foreign')]
      await withMark(family, ACCEPT | MASQUERADE | FOREIGN, async () => {
        const group = await cluster.client.open({ to: target, count: 3 })
        await group.exchange()
        await group.exchange()
        await group.close()
      })
      assert.equal(await counter('marked'), marked)
      assert.ok((await counter('foreign')) > foreign + 3 * 4, 'later packets were marked too')
    })
  }
})
