/** The daemon dies, is stopped, is started twice: what it left in the kernel goes on, and nothing is lost. */

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Cluster, Family, RunningLoad, Stage } from '../cluster/index.ts'
import { backendsOf, FAMILIES, formatSocketAddress, NODES, tally } from '../cluster/index.ts'
import { assertEvenly, LIMIT_MS, sluice, startNodes } from './kit.ts'

const WEB_PODS = ['p1', 'p3', 'p5', 'p6'] as const

/** Where the services are, in one family. */
interface Targets {
  readonly web: string
  readonly webNodePort: string
  readonly sticky: string
  readonly stickyNodePort: string
  readonly dns: string
  readonly one: string
}

/** The addresses of the services have the same end in both families. */
const CLUSTER_IP = {
  ipv4: (end: number): string => `10.97.0.${end}`,
  ipv6: (end: number): string => `fd00:10:97::${end}`,
} as const

function targetsOf(family: Family): Targets {
  const at = (end: number, port: number) => formatSocketAddress({ address: CLUSTER_IP[family](end), port })
  const nodePort = (port: number) => formatSocketAddress({ address: NODES.n1[family], port })
  return {
    web: at(1, 80),
    webNodePort: nodePort(31_001),
    sticky: at(2, 80),
    stickyNodePort: nodePort(31_002),
    dns: at(3, 53),
    one: at(4, 80),
  }
}

/** Clients of every kind, each of which would notice a gap. */
async function loadEverything({ client, node, pod }: Cluster, targets: Targets): Promise<RunningLoad[]> {
  const often = { clients: 2, intervalMs: 15 } as const
  return await Promise.all([
    client.load({ to: targets.webNodePort, mode: 'new', ...often }),
    client.load({ to: targets.webNodePort, mode: 'keep', ...often }),
    pod('p2').load({ to: targets.web, mode: 'new', ...often }),
    pod('p4').load({ to: targets.web, mode: 'keep', ...often }),
    pod('p4').load({ to: targets.dns, protocol: 'udp', mode: 'new', ...often }),
    pod('p2').load({ to: targets.dns, protocol: 'udp', mode: 'keep', ...often }),
    node('n1').load({ to: targets.web, mode: 'new', ...often }),
    node('n1').load({ to: targets.dns, protocol: 'udp', mode: 'keep', connected: false, ...often }),
  ])
}

/** Everybody gets so many more answers. */
async function moreAnswers(loads: readonly RunningLoad[], count: number): Promise<void> {
  for (const report of await Promise.all(loads.map((load) => load.report(count)))) {
    assert.deepEqual(report.failures, [])
  }
}

async function endAll(loads: readonly RunningLoad[]): Promise<void> {
  for (const report of await Promise.all(loads.map((load) => load.end()))) {
    assert.deepEqual(report.failures, [])
  }
}

for (const family of FAMILIES) {
  const targets = targetsOf(family)

  describe(`the daemon ends and comes back under load (${family})`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({
        services: [
          { name: 'web', clusterIP: CLUSTER_IP[family](1), nodePort: 31_001, pods: WEB_PODS },
          {
            name: 'sticky',
            clusterIP: CLUSTER_IP[family](2),
            nodePort: 31_002,
            pods: WEB_PODS,
            affinitySeconds: 600,
          },
          {
            name: 'dns',
            clusterIP: CLUSTER_IP[family](3),
            port: 53,
            protocol: 'UDP',
            nodePort: 31_003,
            pods: ['p3', 'p5'],
          },
          { name: 'one', clusterIP: CLUSTER_IP[family](4), pods: WEB_PODS },
        ],
      })
    })
    after(() => stage[Symbol.asyncDispose]())

    /** Ends the daemon of n1 in some way, starts it again; nobody may notice. */
    async function unnoticed(end: () => Promise<unknown>): Promise<void> {
      const { client, node, pod } = stage.cluster
      const held = await Promise.all([
        client.open({ to: targets.webNodePort, count: 20 }),
        pod('p2').open({ to: targets.web, count: 20 }),
        pod('p1').open({ to: targets.web, count: 4 }),
        node('n1').open({ to: targets.web, count: 4 }),
      ])
      const sticky = async () =>
        backendsOf([
          await client.ask({ to: targets.stickyNodePort }),
          await pod('p2').ask({ to: targets.sticky }),
          await node('n1').ask({ to: targets.sticky }),
        ])
      const stuckTo = await sticky()
      // Nobody else asks this one: its cursor is at a known place.
      const turn = backendsOf(await pod('p2').request({ to: targets.one, count: 3 }))

      const loads = await loadEverything(stage.cluster, targets)
      await moreAnswers(loads, 10)
      await end()
      await moreAnswers(loads, 10)
      turn.push(...backendsOf(await pod('p2').request({ to: targets.one, count: 2 })))
      await stage.daemon('n1').startUntilReady()
      turn.push(...backendsOf(await pod('p2').request({ to: targets.one, count: 3 })))
      await moreAnswers(loads, 10)

      assert.deepEqual(await sticky(), stuckTo)
      assert.deepEqual(turn.slice(4), turn.slice(0, 4))
      assert.deepEqual(new Set(turn).size, 4)
      for (const group of held) {
        assert.deepEqual(tally(await group.exchange()), tally(group.answers))
        await group.close()
      }
      await endAll(loads)
    }

    test('kill -9', async () => {
      await unnoticed(() => stage.daemon('n1').kill())
    })

    test('SIGTERM: it ends at once, with exit code 0', async () => {
      await unnoticed(async () => {
        assert.equal(await stage.daemon('n1').stop(), 'exit code 0')
      })
    })

    test('killed again and again while it starts', async () => {
      const loads = await loadEverything(stage.cluster, targets)
      const daemon = stage.daemon('n1')
      await daemon.kill()
      for (let answers = 2; answers <= 42; answers += 8) {
        daemon.start()
        // Long before it is ready, a little later each time.
        await moreAnswers(loads, answers)
        await daemon.kill()
      }
      await daemon.startUntilReady()
      await moreAnswers(loads, 10)
      await endAll(loads)
      assertEvenly(await stage.cluster.pod('p2').request({ to: targets.one, count: 8 }), WEB_PODS)
    })

    test('a second daemon on the node refuses to start, with exit code 2 and the first one named', async () => {
      const { node } = stage.daemon('n1')
      const second = await sluice(
        node,
        ...['run', '--source', `files:${stage.folder}/manifests`, '--node-name', 'n1'],
      )
      assert.equal(second.code, 2)
      assert.match(second.stderr, new RegExp(`another sluice daemon .*process ${stage.daemon('n1').pid}`))
      assertEvenly(await stage.cluster.pod('p2').request({ to: targets.one, count: 4 }), WEB_PODS)
    })
  })
}

describe('cleanup', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      forwardPolicyDrop: true,
      services: [{ name: 'web', clusterIP: '10.97.0.1', nodePort: 31_001, pods: ['p1'] }],
    })
  })
  after(() => stage[Symbol.asyncDispose]())

  /** All that a daemon could have made on the node: programs, rules, sysctls, mounts. */
  async function traces(): Promise<string> {
    const script =
      'bpftool net show; bpftool cgroup tree "$CGROUP"; nft list ruleset; (iptables-save; ip6tables-save) | sed "s/ \\[.*//; /^#/d"; sysctl -a 2>/dev/null | grep "^net\\.\\(bridge\\|ipv[46]\\.\\(conf\\|ip_forward\\)\\)" | sort; grep sluice /proc/mounts'
    const { node } = stage.daemon('n2')
    const { stdout } = await node.exec(['sh', '-c', script], { env: { CGROUP: node.cgroup }, anyCode: true })
    return stdout
  }

  test('while the daemon runs it is refused, and nothing is taken away', async () => {
    const { node } = stage.daemon('n1')
    const { code, stderr } = await sluice(node, 'cleanup')
    assert.equal(code, 2)
    assert.match(stderr, /another sluice daemon/)
    assert.ok((await stage.cluster.pod('p2').ask({ to: '10.97.0.1:80' })).ok)
  })

  test('it names what it removes and leaves nothing; a second one finds nothing', async () => {
    const { node } = stage.daemon('n2')
    const { client } = stage.cluster
    const to = `${NODES.n2.ipv4}:31001`
    assert.ok((await client.ask({ to })).ok)
    assert.match(await traces(), /sluice/)
    await stage.daemon('n2').kill()
    assert.ok((await client.ask({ to })).ok)

    const { code, stdout } = await sluice(node, 'cleanup')
    assert.equal(code, 0)
    for (const kind of [
      /ingress (link|filter) of device/,
      /cgroup connect4 link/,
      /cgroup connect6 link/,
      /map .*flows4/,
      /map .*flows6/,
      /table/,
      /iptables.* SLUICE-FORWARD/,
      /ip6tables.* SLUICE-FORWARD/,
    ]) {
      assert.match(stdout, kind)
    }
    assert.equal(existsSync(node.bpfRoot) ? readdirSync(node.bpfRoot).join() : '', '')
    const left = await traces()
    assert.doesNotMatch(left, /sluice|tcx|connect|sock_release/i)
    const refused = await client.ask({ to, timeoutMs: LIMIT_MS })
    assert.deepEqual(refused, { ok: false, error: 'ECONNREFUSED' })

    const again = await sluice(node, 'cleanup')
    assert.equal(again.code, 0)
    assert.match(again.stdout, /nothing to remove/)
  })

  test('after that it starts as if for the first time', async () => {
    await stage.daemon('n2').startUntilReady()
    assert.ok((await stage.cluster.client.ask({ to: `${NODES.n2.ipv4}:31001` })).ok)
  })
})
