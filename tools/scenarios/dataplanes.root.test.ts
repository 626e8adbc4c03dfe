/** Which dataplane a daemon takes, and what it says of that: on this kernel, and as on one that refuses bpf(2). */

import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { BpfRefusal, Daemon, RunningLoad, Stage } from '../cluster/index.ts'
import {
  CLUSTER_CIDR,
  CLUSTER_CIDR6,
  compileWithoutBpf,
  FAMILIES,
  formatSocketAddress,
  NODE_NAMES,
  NODES,
  SLUICE,
  setStage,
  tally,
} from '../cluster/index.ts'
import { assertAllFail, eventually, LIMIT_MS } from './kit.ts'
import { manifest } from './objects.ts'

const WEB = ['p1', 'p3', 'p5', 'p6'] as const
const CLUSTER_IP = { ipv4: '10.97.0.1', ipv6: 'fd00:10:97::1' } as const
const NODE_PORT = 31_001
const EMPTY = '10.97.0.2:80'

/** From one to the next, and what is said of what the one before left. */
const CHANGES = [
  ['iptables', /^/],
  ['bpf', /removed the rules of the iptables dataplane/],
  ['iptables', /removed what the eBPF dataplane had in the kernel/],
  ['bpf', /removed the rules of the iptables dataplane/],
] as const

const CLUSTER_CIDRS = `${CLUSTER_CIDR},${CLUSTER_CIDR6}`

/** The fields of an Event of the API that say anything. */
interface NodeEvent {
  readonly type: string
  readonly reason: string
  readonly note: string
  readonly regarding: { readonly kind: string; readonly name: string }
}

/** Every pod of `WEB` has answered, and nobody else. */
function assertServed(answers: Parameters<typeof tally>[0], what: string): void {
  assert.deepEqual(Object.keys(tally(answers)).sort(), [...WEB], what)
}

/** Every kind of client and of address, in both families. So often that random picks everybody. */
async function assertServes({ cluster }: Stage): Promise<void> {
  for (const family of FAMILIES) {
    const to = formatSocketAddress({ address: CLUSTER_IP[family], port: 80 })
    const nodePort = formatSocketAddress({ address: NODES.n1[family], port: NODE_PORT })
    const count = 60
    assertServed(await cluster.pod('p4').request({ to, count }), `p4 → ${to}`)
    assertServed(await cluster.node('n1').request({ to, count }), `n1 → ${to}`)
    assertServed(await cluster.client.request({ to: nodePort, count }), `client → ${nodePort}`)
  }
  const local = await cluster.node('n1').request({ to: `127.0.0.1:${NODE_PORT}`, count: 60 })
  assertServed(local, 'n1 → 127.0.0.1')
  assertAllFail(await cluster.pod('p2').request({ to: EMPTY, count: 2 }), 'ECONNREFUSED')
}

describe('the choice of a dataplane', () => {
  let stage: Stage
  let launcher: (refusal: BpfRefusal) => readonly string[]
  before(async () => {
    const source = 'kubernetes'
    stage = await setStage({ prefix: `slt${process.pid}`, examples: ['nodes'], source, brNetfilter: 1 })
    launcher = await compileWithoutBpf(stage.folder)
    const addresses = { clusterIP: CLUSTER_IP.ipv4, secondClusterIP: CLUSTER_IP.ipv6 }
    const web = { name: 'web', ...addresses, nodePort: NODE_PORT, pods: WEB }
    stage.write('scenario', manifest(web, { name: 'empty', clusterIP: '10.97.0.2' }))
  })
  after(async () => await stage?.[Symbol.asyncDispose]())

  /** What an end point of the metrics server on n1 answers: head and body. */
  async function ask(path: string): Promise<string> {
    const { stdout } = await stage.cluster.node('n1').exec(['curl', '-si', `http://127.0.0.1:10249/${path}`])
    return stdout
  }

  /** What `kubectl describe node n1` would show at its end. */
  async function eventsOfNode(): Promise<readonly NodeEvent[]> {
    const url = `${stage.apiServer}/apis/events.k8s.io/v1/namespaces/default/events`
    const { stdout } = await stage.cluster.client.exec(['curl', '-sk', url])
    const { items }: { readonly items: readonly NodeEvent[] } = JSON.parse(stdout)
    return items.filter(({ regarding }) => regarding.kind === 'Node' && regarding.name === 'n1')
  }

  /** Runs the daemons until the end of `act`. */
  async function whileRunning(make: (name: 'n1' | 'n2') => Daemon, act: (daemon: Daemon) => Promise<void>) {
    const daemons = NODE_NAMES.map(make)
    try {
      await Promise.all(daemons.map((daemon) => daemon.startUntilReady(2 * LIMIT_MS)))
      const [first] = daemons
      if (first !== undefined) await act(first)
    } finally {
      await Promise.all(daemons.map((daemon) => daemon.stop()))
    }
  }

  for (const refusal of ['ENOSYS', 'EPERM'] as const) {
    test(`iptables where bpf(2) is refused with ${refusal}: it serves, and says why`, async () => {
      await whileRunning(
        (name) => stage.daemonWith(name, ['--proxy-mode', 'auto'], launcher(refusal)),
        async (daemon) => {
          await assertServes(stage)
          await daemon.untilSaid(/WARN +the dataplane is iptables: eBPF cannot work here: .*bpf\(2\)/)
          const mode = await ask('proxyMode')
          assert.match(mode, /\r\n\r\niptables$/)
          assert.match(mode, /^X-Sluice-Reason: fallback\r$/m)
          assert.match(
            await ask('metrics'),
            /^sluice_dataplane_info\{dataplane="iptables",reason="fallback"\} 1$/m,
          )
          await eventually('the Node has an event that says so', async () =>
            (await eventsOfNode()).some(
              ({ type, reason, note }) =>
                type === 'Warning' &&
                reason === 'DataplaneChosen' &&
                /^the dataplane is iptables: eBPF cannot work here: .*bpf\(2\)/.test(note),
            ),
          )
          assert.ok((await eventsOfNode()).some(({ reason }) => reason === 'Starting'))
          const { bpfRoot } = daemon.node
          assert.deepEqual(existsSync(bpfRoot) ? readdirSync(bpfRoot) : [], [], 'nothing is pinned')
        },
      )
    })
  }

  test('sluice probe says the same beforehand', async () => {
    const node = stage.cluster.node('n1')
    const probe = async (words: readonly string[]) => {
      const [program = process.execPath, ...rest] = [...words, process.execPath]
      const command = [SLUICE, 'probe', '--bpf-root', node.bpfRoot, '-o', 'json']
      return JSON.parse((await node.exec([program, ...rest, ...command])).stdout)
    }
    const { dataplane, why, missing } = await probe(launcher('EPERM'))
    assert.equal(dataplane, 'iptables')
    assert.match(why, /^eBPF cannot work here: /)
    assert.match(missing.join(), /bpf\(2\)/)
    assert.equal((await probe([])).dataplane, 'bpf')
  })

  test('who asks for eBPF by name is refused, with the reason', async () => {
    const daemon = stage.daemonWith('n1', ['--proxy-mode', 'bpf'], launcher('ENOSYS'))
    daemon.start()
    assert.equal(await daemon.ended(), 'exit code 2')
    assert.match(daemon.lastWords(1), /^sluice: --proxy-mode bpf: eBPF cannot work here: .*bpf\(2\)/)
  })

  test('a start that ends for want of a port is told by an event of the Node', async () => {
    const nobody = '192.0.2.77'
    for (const [server, reason] of [
      ['healthz', 'FailedToStartProxierHealthcheck'],
      ['metrics', 'FailedToStartMetricServer'],
    ] as const) {
      const daemon = stage.daemonWith('n1', [
        `--${server}_bind_address=${nobody}`,
        '--bind-address-hard-fail',
      ])
      daemon.start()
      assert.equal(await daemon.ended(), 'exit code 2')
      assert.match(daemon.lastWords(1), /^sluice: the \w+ server cannot listen on 192\.0\.2\.77:/)
      const said = (await eventsOfNode()).filter((event) => event.reason === reason)
      assert.deepEqual(
        said.map(({ type, note }) => [type, note.includes(nobody)]),
        [['Warning', true]],
        server,
      )
    }
  })

  test('eBPF where the kernel takes the programs', async () => {
    await whileRunning(
      (name) => stage.daemonWith(name, ['--proxy-mode', 'auto']),
      async (daemon) => {
        await daemon.untilSaid(/INFO +the dataplane is bpf: the kernel takes its programs/)
        assert.match(await ask('proxyMode'), /^X-Sluice-Reason: fits\r$/m)
        await assertServes(stage)
      },
    )
  })

  test('where neither can work both reasons are told', async () => {
    const withoutTools = ['/usr/bin/env', 'PATH=/nowhere']
    const daemon = stage.daemonWith('n1', ['--proxy-mode', 'auto'], [...launcher('EPERM'), ...withoutTools])
    daemon.start()
    assert.equal(await daemon.ended(), 'exit code 2')
    assert.match(
      daemon.lastWords(1),
      /^sluice: no dataplane can work here: eBPF cannot work here: .*bpf\(2\).*\. And iptables cannot work here: /,
    )
  })

  test('a restart changes the dataplane under load: nothing fails, and nothing of the former one is left', async () => {
    const { client, pod } = stage.cluster
    const nodePort = formatSocketAddress({ address: NODES.n1.ipv4, port: NODE_PORT })
    const clusterIP = `${CLUSTER_IP.ipv4}:80`
    const often = { clients: 2, intervalMs: 25 } as const
    let loads: readonly RunningLoad[] = []
    const moreAnswers = async () => {
      for (const { failures } of await Promise.all(loads.map((load) => load.report(20)))) {
        assert.deepEqual(failures, [])
      }
    }
    for (const [i, [mode, removed]] of CHANGES.entries()) {
      await whileRunning(
        (name) => stage.daemonWith(name, ['--proxy-mode', mode, '--cluster-cidr', CLUSTER_CIDRS]),
        async (daemon) => {
          if (i === 0) {
            loads = await Promise.all([
              client.load({ to: nodePort, mode: 'new', ...often }),
              client.load({ to: nodePort, mode: 'keep', ...often }),
              pod('p4').load({ to: clusterIP, mode: 'new', ...often }),
              pod('p4').load({ to: clusterIP, mode: 'keep', ...often }),
            ])
          } else await daemon.untilSaid(removed)
          await moreAnswers()
          const { stdout } = await daemon.node.exec(['sh', '-c', 'iptables-save; ip6tables-save'])
          assert.equal(stdout.includes('KUBE-SVC-'), mode === 'iptables', 'rules of services')
          const { bpfRoot } = daemon.node
          // The first daemon here may find those of a test before this one.
          await eventually('only the eBPF dataplane has pins', () => existsSync(bpfRoot) === (mode === 'bpf'))
        },
      )
    }
    for (const { answered, failures } of await Promise.all(loads.map((load) => load.end()))) {
      assert.deepEqual(failures, [])
      assert.ok(answered > 0)
    }
  })

  test('who asks for iptables by name gets it, with the scheduler that was asked for', async () => {
    await whileRunning(
      (name) => stage.daemonWith(name, ['--proxy-mode', 'iptables', '--scheduler', 'round-robin']),
      async () => {
        await assertServes(stage)
        const mode = await ask('proxyMode')
        assert.match(mode, /^X-Sluice-Reason: configured\r$/m)
        assert.match(mode, /\r\n\r\niptables$/)
        const to = `${CLUSTER_IP.ipv4}:80`
        // A SYN that is sent again counts as well, and rules written anew count anew: on a busy machine some rounds differ.
        // By chance alone one of two hundred would be even.
        const rounds: string[] = []
        while (rounds.length < 5 && rounds.at(-1) !== '10,10,10,10') {
          const counts = tally(await stage.cluster.pod('p4').request({ to, count: 40 }))
          rounds.push(Object.values(counts).join())
        }
        assert.equal(
          rounds.at(-1),
          '10,10,10,10',
          `each backend equally often in one round: ${rounds.join(' ')}`,
        )
      },
    )
  })
})
