/** Whose sockets are served: pods ask for it or refuse, and their namespaces for them; whichever way, services answer. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Member, PodName, SourceKind, Stage } from '../cluster/index.ts'
import { backendsOf, NODES, PODS } from '../cluster/index.ts'
import { assertEvenly, eventually, eventuallyFrom, startNodes } from './kit.ts'
import { manifest } from './objects.ts'

const WEB = {
  name: 'web',
  clusterIP: '10.97.0.1',
  secondClusterIP: 'fd00:10:97::1',
  nodePort: 31_001,
  pods: ['p1', 'p5'],
} as const
const DNS = { name: 'dns', clusterIP: '10.97.0.2', port: 53, protocol: 'UDP', pods: ['p3', 'p6'] } as const
const ANNOTATION = 'sluice.dev/socket-load-balancing'

const says = (part: 'annotations' | 'labels', text: string | undefined) =>
  text === undefined ? {} : { [part]: { [ANNOTATION]: text } }

function podObject(name: PodName, namespace: string, said?: string): object {
  const { node, ipv4 } = PODS[name]
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace, name, ...says('annotations', said) },
    spec: { nodeName: node },
    status: { phase: 'Running', podIP: ipv4, podIPs: [{ ip: ipv4 }] },
  }
}

const namespaceObject = (name: string, said?: string) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, ...says('labels', said) },
})

const writePods = (stage: Stage, ...objects: readonly object[]): void =>
  stage.write('pods', objects.map((object) => JSON.stringify(object)).join('\n---\n'))

/** How an address is written in each family, and the service's. */
const FAMILIES = {
  ipv4: { spell: (address: string) => address, clusterIP: WEB.clusterIP },
  ipv6: { spell: (address: string) => `[${address}]`, clusterIP: WEB.secondClusterIP },
} as const

/** Whether a new connection of a pod to the service is made at its socket: what the kernel says is its peer. */
async function isServedAtSocket(pod: Member, family: 'ipv4' | 'ipv6' = 'ipv4'): Promise<boolean> {
  const { spell, clusterIP } = FAMILIES[family]
  const group = await pod.open({ to: `${spell(clusterIP)}:80` })
  const [answer] = group.answers
  assert.ok(answer?.ok, JSON.stringify(answer))
  assert.deepEqual(answer.remote, { address: clusterIP, port: 80 })
  const { stdout } = await pod.exec(['ss', '-Htn', 'state', 'established', `sport = :${answer.local.port}`])
  await group.close()
  const peer = stdout.trim().split(/\s+/).at(-1)
  const backend = `${spell(PODS[answer.backend as PodName][family])}:8080`
  assert.ok([backend, `${spell(clusterIP)}:80`].includes(peer ?? ''), stdout)
  return peer === backend
}

async function eventuallyServed(pod: Member, served: boolean): Promise<void> {
  await eventually(`${pod.name} served at its sockets: ${served}`, async () => {
    return (await isServedAtSocket(pod)) === served
  })
}

async function start(mode: string, source: SourceKind, ...objects: readonly object[]): Promise<Stage> {
  const flags = ['--socket-load-balancing', mode]
  const stage = await startNodes({ services: [WEB, DNS], flags, source })
  writePods(stage, ...objects)
  return stage
}

for (const source of ['files', 'kubernetes'] as const) {
  describe(`pods that ask for it, told by ${source}`, () => {
    let stage: Stage
    before(async () => {
      stage = await start(
        'host',
        source,
        namespaceObject('plain'),
        namespaceObject('fast', 'true'),
        podObject('p1', 'plain', 'true'),
        podObject('p2', 'fast'),
        podObject('p3', 'fast', 'false'),
        podObject('p4', 'plain'),
      )
    })
    after(() => stage[Symbol.asyncDispose]())

    test('are served at their sockets, by their own word or that of their namespace; others by packets', async () => {
      const { pod } = stage.cluster
      await eventuallyServed(pod('p1'), true)
      await eventuallyServed(pod('p2'), true)
      assert.equal(await isServedAtSocket(pod('p2'), 'ipv6'), true)
      assert.equal(await isServedAtSocket(pod('p4'), 'ipv6'), false)
      for (const name of ['p3', 'p4'] as const) assert.equal(await isServedAtSocket(pod(name)), false, name)
    })

    test('another word holds for the next connection', async () => {
      const { pod } = stage.cluster
      writePods(
        stage,
        namespaceObject('plain', 'true'),
        namespaceObject('fast'),
        podObject('p1', 'plain', 'false'),
        podObject('p2', 'fast'),
        podObject('p3', 'fast', 'false'),
        podObject('p4', 'plain'),
      )
      await eventuallyServed(pod('p4'), true)
      await eventuallyServed(pod('p1'), false)
      await eventuallyServed(pod('p2'), false)
      assert.equal(await isServedAtSocket(pod('p3')), false)
    })

    test("the node's loopback is not a pod's: its node ports are refused there", async () => {
      const p4 = stage.cluster.pod('p4')
      await eventuallyServed(p4, true)
      assert.deepEqual(await p4.ask({ to: `127.0.0.1:${WEB.nodePort}` }), {
        ok: false,
        error: 'ECONNREFUSED',
      })
      assertEvenly(await p4.request({ to: `${NODES.n1.ipv4}:${WEB.nodePort}`, count: 4 }), WEB.pods)
    })

    test('B10 a UDP socket of a pod, connected to a backend that goes, is told; the others are not', async () => {
      const p4 = stage.cluster.pod('p4')
      await eventuallyServed(p4, true)
      const to = `${DNS.clusterIP}:53`
      const ask = { to, protocol: 'udp', timeoutMs: 1000 } as const
      const connected = await Promise.all(DNS.pods.map(() => p4.open(ask)))
      const unconnected = await Promise.all(DNS.pods.map(() => p4.open({ ...ask, connected: false })))
      assert.deepEqual(connected.flatMap(({ answers }) => backendsOf(answers)).toSorted(), [...DNS.pods])
      stage.write('scenario', manifest(WEB, { ...DNS, pods: ['p6'] }))
      for (const group of connected) {
        const isGone = backendsOf(group.answers)[0] === 'p3'
        if (!isGone) assert.deepEqual(backendsOf(await group.exchange()), ['p6'])
        else
          await eventually('the socket is aborted', async () => {
            const [answer] = await group.exchange({ timeoutMs: 200 })
            return answer?.ok === false && answer.error !== 'TIMEOUT'
          })
      }
      await eventuallyFrom(() => p4.request({ ...ask, count: 4 }), ['p6'])
      for (const group of unconnected) assert.deepEqual(backendsOf(await group.exchange()), ['p6'])
      for (const group of [...connected, ...unconnected]) await group.close()
    })
  })
}

describe('all pods but those that refuse', () => {
  let stage: Stage
  before(async () => {
    stage = await start('all', 'files', namespaceObject('mesh', 'false'), podObject('p2', 'mesh'))
  })
  after(() => stage[Symbol.asyncDispose]())

  test('are served at their sockets, whether anybody knows them or not', async () => {
    const { pod, node } = stage.cluster
    await eventuallyServed(pod('p2'), false)
    assert.equal(await isServedAtSocket(pod('p1')), true)
    assert.equal(await isServedAtSocket(pod('p4')), true)
    assert.equal(await isServedAtSocket(node('n1')), true)
  })

  test('a restart serves nobody else: what is in the kernel stays in force until everything is known', async () => {
    const { pod } = stage.cluster
    await stage.daemon('n1').stop()
    await stage.daemon('n1').startUntilReady()
    assert.equal(await isServedAtSocket(pod('p2')), false)
    assert.equal(await isServedAtSocket(pod('p1')), true)
  })
})
