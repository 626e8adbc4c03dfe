/** Processes of a node and of pods, served at their sockets: every kind of socket sees the service, and reaches a backend. */

import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Answer, ConnectionGroup, Member, Protocol, Stage } from '../cluster/index.ts'
import { backendsOf, NODES, PODS } from '../cluster/index.ts'
import { assertEvenly, eventually, eventuallyFrom, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const WEB = {
  name: 'web',
  clusterIP: '10.97.0.1',
  secondClusterIP: 'fd00:10:97::1',
  nodePort: 31_001,
  pods: ['p1', 'p5'],
} as const
const DNS = {
  name: 'dns',
  clusterIP: '10.97.0.2',
  secondClusterIP: 'fd00:10:97::2',
  port: 53,
  protocol: 'UDP',
  nodePort: 31_002,
  pods: ['p3', 'p6'],
} as const
const EMPTY = { name: 'empty', clusterIP: '10.97.0.3', secondClusterIP: 'fd00:10:97::3' } as const
const EMPTY_UDP = { ...EMPTY, name: 'empty-udp', protocol: 'UDP' } as const

interface DualStack {
  readonly ipv4: string
  readonly ipv6: string
}

const addressesOf = (plan: { readonly clusterIP: string; readonly secondClusterIP: string }): DualStack => ({
  ipv4: plan.clusterIP,
  ipv6: plan.secondClusterIP,
})
const LOOPBACK: DualStack = { ipv4: '127.0.0.1', ipv6: '::1' }

/** A kind of socket, and how it is asked to reach one of two addresses. */
const SPELLINGS = [
  { socket: 'an IPv4 socket', family: 'ipv4', spell: (address: string) => address },
  {
    socket: 'an IPv6 socket that speaks IPv4',
    family: 'ipv4',
    spell: (address: string) => `[::ffff:${address}]`,
  },
  { socket: 'an IPv6 socket', family: 'ipv6', spell: (address: string) => `[${address}]` },
] as const

/** Each answer shows the service as the other end, and came from a backend that saw the node itself. */
function assertShownAs(answers: readonly Answer[], address: string, port: number): void {
  for (const answer of answers) {
    assert.ok(answer.ok, JSON.stringify(answer))
    assert.deepEqual(
      { ...answer.remote, address: answer.remote.address.replace('::ffff:', '') },
      { address, port },
    )
  }
}

describe('sockets of the node', () => {
  let stage: Stage
  let n1: Member
  before(async () => {
    stage = await startNodes({ services: [WEB, DNS, EMPTY, EMPTY_UDP] })
    n1 = stage.cluster.node('n1')
  })
  after(() => stage[Symbol.asyncDispose]())

  for (const { socket, family, spell } of SPELLINGS) {
    const of = (addresses: DualStack, port: number) => `${spell(addresses[family])}:${port}`
    test(`${socket} over TCP: ClusterIP, and node port on 127.0.0.1`, async () => {
      const byName = await n1.request({ to: of(addressesOf(WEB), 80), count: 8 })
      assertEvenly(byName, WEB.pods)
      assertShownAs(byName, addressesOf(WEB)[family], 80)
      const local = await n1.request({ to: of(LOOPBACK, WEB.nodePort), count: 8 })
      assertEvenly(local, WEB.pods)
      assertShownAs(local, LOOPBACK[family], WEB.nodePort)
    })

    for (const connected of [true, false]) {
      test(`${socket} over UDP, ${connected ? 'connected' : 'unconnected'}`, async () => {
        const ask = { protocol: 'udp', connected } as const
        const answers = await n1.request({ ...ask, to: of(addressesOf(DNS), 53), count: 8 })
        assertEvenly(answers, DNS.pods)
        assertShownAs(answers, addressesOf(DNS)[family], 53)
        const local = await n1.request({ ...ask, to: of(NODES.n1, DNS.nodePort), count: 8 })
        assertEvenly(local, DNS.pods)
        assertShownAs(local, NODES.n1[family], DNS.nodePort)
      })

      test(`${socket} over UDP, ${connected ? 'connected' : 'unconnected'}, stays with its backend`, async () => {
        const to = of(addressesOf(DNS), 53)
        const answers = await n1.request({ protocol: 'udp', connected, to, count: 6, sameSocket: true })
        assertShownAs(answers, addressesOf(DNS)[family], 53)
        assert.equal(new Set(answers.map((answer) => answer.ok && answer.backend)).size, 1)
      })
    }

    test(`${socket} is refused at once where nobody is`, async () => {
      const refused = async (protocol: Protocol, connected: boolean) =>
        await n1.ask({ to: of(addressesOf(EMPTY), 80), protocol, connected })
      for (const [protocol, connected] of [
        ['tcp', true],
        ['udp', true],
        ['udp', false],
      ] as const) {
        assert.deepEqual(await refused(protocol, connected), { ok: false, error: 'ECONNREFUSED' })
      }
    })

    test(`${socket} to anybody else is left alone`, async () => {
      const answer = await n1.ask({ to: of(PODS.p5, 8080) })
      assert.ok(answer.ok && answer.backend === 'p5', JSON.stringify(answer))
      assertShownAs([answer], PODS.p5[family], 8080)
    })
  }
})

/** Sends to each address from one socket, in turns; prints as JSON who answered and whom the socket saw. */
const ONE_SOCKET = `
  const targets = process.argv.slice(1)
  const socket = require('dgram').createSocket('udp4')
  const answers = []
  const ask = () => socket.send('question 1', 53, targets[answers.length % targets.length])
  socket.on('message', (message, from) => {
    answers.push({ backend: JSON.parse(message).backend, from: from.address })
    if (answers.length < 2 * targets.length) return ask()
    console.log(JSON.stringify(answers))
    process.exit()
  })
  setTimeout(() => process.exit(1), 5000)
  ask()`

describe('one UDP socket that asks two services of the same pods', () => {
  test('has a backend of its own for each, keeps it, and sees each answer as from where it asked', async () => {
    const second = {
      ...DNS,
      name: 'second',
      clusterIP: '10.97.0.9',
      secondClusterIP: 'fd00:10:97::9',
      nodePort: 31_009,
    }
    await using stage = await startNodes({ services: [DNS, second] })
    const n1 = stage.cluster.node('n1')
    const targets = [DNS.clusterIP, second.clusterIP]
    for (let i = 0; i < 5; i++) {
      const { stdout } = await n1.exec([process.execPath, '-e', ONE_SOCKET, ...targets])
      const answers: readonly { backend: string; from: string }[] = JSON.parse(stdout)
      assert.deepEqual(
        answers.map(({ from }) => from),
        [...targets, ...targets],
      )
      const [one, other, ...again] = answers.map(({ backend }) => backend)
      assert.notEqual(one, other)
      assert.deepEqual(again, [one, other])
    }
  })
})

describe('UDP sockets of the node, when backends go', () => {
  let stage: Stage
  let n1: Member
  const apply = (...services: readonly ServicePlan[]): void => stage.write('scenario', manifest(...services))
  const open = async (to: string, connected = true) =>
    await n1.open({ to, protocol: 'udp', connected, timeoutMs: 1000 })
  before(async () => {
    stage = await startNodes({ services: [DNS] })
    n1 = stage.cluster.node('n1')
  })
  after(() => stage[Symbol.asyncDispose]())
  beforeEach(async () => {
    apply(DNS)
    const ask = () => n1.request({ to: `${DNS.clusterIP}:53`, protocol: 'udp', count: 4, timeoutMs: 500 })
    await eventuallyFrom(ask, DNS.pods)
  })

  for (const { socket, family, spell } of SPELLINGS) {
    const of = (addresses: DualStack, port: number) => `${spell(addresses[family])}:${port}`
    test(`B10 ${socket} connected through us to a gone backend is told; no other socket notices`, async () => {
      const to = of(addressesOf(DNS), 53)
      const through = await Promise.all(DNS.pods.map(() => open(to)))
      const goneOf = (group: ConnectionGroup) => backendsOf(group.answers)[0] === 'p3'
      assert.equal(through.filter(goneOf).length, 1)
      const unconnected = await Promise.all(DNS.pods.map(() => open(to, false)))
      const direct = await Promise.all(DNS.pods.map((pod) => open(of(PODS[pod], 5353))))

      // While it only terminates, everybody stays.
      apply({ ...DNS, pods: ['p6'], terminating: ['p3'] })
      await eventuallyFrom(() => n1.request({ to, protocol: 'udp', count: 4 }), ['p6'])
      for (const group of [...through, ...unconnected]) {
        assert.deepEqual(backendsOf(await group.exchange()), backendsOf(group.answers))
      }

      apply({ ...DNS, pods: ['p6'] })
      for (const group of through) {
        if (!goneOf(group)) continue
        // The kernel says it once, to whatever the process does next; afterwards the socket is connected to nobody.
        await eventually('the socket is aborted', async () => {
          const [answer] = await group.exchange({ timeoutMs: 200 })
          return answer?.ok === false && answer.error !== 'TIMEOUT'
        })
      }
      assert.deepEqual(backendsOf(await n1.request({ to, protocol: 'udp', count: 4 })), Array(4).fill('p6'))
      for (const group of [...through.filter((each) => !goneOf(each)), ...unconnected]) {
        assert.deepEqual(backendsOf(await group.exchange()), ['p6'])
      }
      for (const [i, group] of direct.entries())
        assert.deepEqual(backendsOf(await group.exchange()), [DNS.pods[i]])
      for (const group of [...through, ...unconnected, ...direct]) await group.close()
    })
  }
})

describe('whether the socket programs run', () => {
  test('is told where they do not, with what to do, and when they do again', async () => {
    await using stage = await startNodes({ services: [WEB] })
    const daemon = stage.daemon('n1')
    const node = stage.cluster.node('n1')
    assert.doesNotMatch(daemon.said(), /socket programs/)
    // The daemon and the rest of the node move to where no program is.
    await node.exec(['sh', '-c', `echo ${daemon.pid ?? 0} > '${dirname(node.cgroup)}/cgroup.procs'`])
    await eventually('the daemon says so', () =>
      /do not run for this process.*--cgroup-root/.test(daemon.said()),
    )
    await node.exec(['sh', '-c', `echo ${daemon.pid ?? 0} > '${node.cgroup}/cgroup.procs'`])
    await eventually('the daemon says so', () => /the socket programs run again/.test(daemon.said()))
  })
})
