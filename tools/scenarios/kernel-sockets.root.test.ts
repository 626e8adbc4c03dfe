/**
 * Services for sockets of the node's kernel: whoever connects on the node keeps the address of the service, and netfilter
 * translates. A process outside of the cgroup that the socket programs are attached to shows what a socket shows that no
 * program sees.
 */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, beforeEach, describe, test } from 'node:test'
import { promisify } from 'node:util'
import type { Family, Member, PodName, Stage } from '../cluster/index.ts'
import { backendsOf, FAMILIES, formatSocketAddress, NODES, PODS } from '../cluster/index.ts'
import { eventually, eventuallyFrom, sluice, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const run = promisify(execFile)

const WEB = {
  name: 'web',
  clusterIP: '10.97.0.1',
  secondClusterIP: 'fd00:10:97::1',
  nodePort: 31_001,
  pods: ['p1', 'p5'],
  kernelSockets: true,
} as const
const NFS = {
  ...WEB,
  name: 'nfs',
  clusterIP: '10.97.0.2',
  secondClusterIP: 'fd00:10:97::2',
  port: 2049,
  nodePort: 31_002,
  protocol: 'UDP',
} as const
const EMPTY = { name: 'empty', clusterIP: '10.97.0.3', pods: [], kernelSockets: true } as const
const EMPTY_UDP = { ...EMPTY, name: 'empty-udp', clusterIP: '10.97.0.4', protocol: 'UDP' } as const

/** Says who answers, as a line each, over one socket of its own each time. */
const CLIENT = `
import socket, sys
kind, address, port, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
for _ in range(times):
    client = socket.socket(family, socket.SOCK_STREAM if kind == 'TCP' else socket.SOCK_DGRAM)
    client.settimeout(20)
    client.connect((address, port))
    assert client.getpeername()[:2] == (address, port)
    client.sendall(b'{"id": 1}\\n')
    print(client.recv(4096).decode().strip())
    client.close()
`

describe('services for sockets of the kernel', () => {
  let stage: Stage
  let n1: Member
  const apply = (...services: readonly ServicePlan[]): void => stage.write('scenario', manifest(...services))
  before(async () => {
    stage = await startNodes({ services: [WEB, NFS, EMPTY, EMPTY_UDP] })
    n1 = stage.cluster.node('n1')
  })
  after(() => stage[Symbol.asyncDispose]())
  beforeEach(async () => {
    apply(WEB, NFS, EMPTY, EMPTY_UDP)
    for (const { clusterIP: address, port = 80, protocol } of [
      { ...WEB, port: 80, protocol: 'TCP' },
      NFS,
    ] as const)
      await eventuallyFrom(
        () =>
          n1.request({
            to: formatSocketAddress({ address, port }),
            protocol: protocol === 'TCP' ? 'tcp' : 'udp',
            count: 16,
            timeoutMs: 500,
          }),
        WEB.pods,
      )
  })

  /** What a process of the node asks by, in each family. */
  const targets = (plan: typeof WEB | typeof NFS, family: Family): readonly string[] => {
    const port = 'port' in plan ? plan.port : 80
    const address = family === 'ipv4' ? plan.clusterIP : plan.secondClusterIP
    return [
      formatSocketAddress({ address, port }),
      formatSocketAddress({ address: NODES.n1[family], port: plan.nodePort }),
    ]
  }

  for (const family of FAMILIES) {
    for (const plan of [WEB, NFS]) {
      const protocol = plan === WEB ? 'tcp' : 'udp'
      test(`${protocol} of the node, ${family}: every backend, and the socket keeps the address`, async () => {
        for (const to of targets(plan, family)) {
          await eventuallyFrom(() => n1.request({ to, protocol, count: 16, timeoutMs: 1000 }), plan.pods)
          const group = await n1.open({ to, protocol, timeoutMs: 1000 })
          const [answer] = group.answers
          assert.ok(answer?.ok, JSON.stringify(answer))
          const kind = protocol === 'tcp' ? '-Htn' : '-Hun'
          const { stdout } = await n1.exec(['ss', kind, `sport = :${answer.local.port}`])
          await group.close()
          assert.equal(stdout.trim().split(/\s+/).at(-1), to, 'its peer, as the kernel has it')
        }
      })

      test(`${protocol} of a process that no socket program sees, ${family}`, async () => {
        const address = family === 'ipv4' ? plan.clusterIP : plan.secondClusterIP
        const number = plan === NFS ? plan.port : 80
        const argv = [`--net=/run/netns/${n1.namespace}`, 'python3', '-c', CLIENT, protocol.toUpperCase()]
        const { stdout } = await run('nsenter', [...argv, address, number.toString(), '24'])
        for (const pod of plan.pods) assert.ok(stdout.includes(pod), stdout)
      })
    }
  }

  test('none of it is balanced by a program on a socket', async () => {
    const connections = async () => {
      const { stdout } = await sluice(stage.cluster.node('n1'), 'services', '-o', 'json')
      type Fact = { readonly name: string; readonly connections: number; readonly kernelSockets: boolean }
      const { services }: { services: readonly Fact[] } = JSON.parse(stdout)
      const own = services.filter(({ name }) => name === 'web' || name === 'nfs')
      assert.deepEqual(
        own.map(({ kernelSockets }) => kernelSockets),
        [true, true, true, true],
      )
      return own.map((fact) => fact.connections)
    }
    const before = await connections()
    for (const to of [...targets(WEB, 'ipv4'), ...targets(WEB, 'ipv6')]) await n1.request({ to, count: 4 })
    assert.deepEqual(await connections(), before)
    // Pods are served by their packets as ever.
    const pod = stage.cluster.pod('p2')
    await eventuallyFrom(() => pod.request({ to: `${WEB.clusterIP}:80`, count: 4 }), WEB.pods)
    assert.notDeepEqual(await connections(), before)
  })

  test('a node port on loopback is reached at the socket all the same', async () => {
    await eventuallyFrom(() => n1.request({ to: `127.0.0.1:${WEB.nodePort}`, count: 4 }), WEB.pods)
  })

  test('where nobody serves a connection is refused', async () => {
    const tcp = () => n1.request({ to: `${EMPTY.clusterIP}:80`, timeoutMs: 1000 })
    await eventuallyFrom(tcp, ['ECONNREFUSED'])
    const udp = () => n1.request({ to: `${EMPTY_UDP.clusterIP}:80`, protocol: 'udp', timeoutMs: 1000 })
    // What netfilter refuses at OUTPUT is the sender's error of permission, whatever else is answered.
    await eventuallyFrom(udp, ['EPERM'])
  })

  test('UDP from one port moves to who serves, and is left while nobody does; TCP goes on', async () => {
    const udp = formatSocketAddress({ address: NFS.clusterIP, port: NFS.port })
    apply({ ...WEB, pods: ['p1'] }, { ...NFS, pods: ['p1'] }, EMPTY, EMPTY_UDP)
    const ask = (to: string, protocol: 'tcp' | 'udp') => () =>
      n1.request({ to, protocol, count: 8, timeoutMs: 500 })
    await eventuallyFrom(ask(`${WEB.clusterIP}:80`, 'tcp'), ['p1'])
    await eventuallyFrom(ask(udp, 'udp'), ['p1'])
    const group = await n1.open({ to: udp, protocol: 'udp', timeoutMs: 1000 })
    const stream = await n1.open({ to: `${WEB.clusterIP}:80` })
    const answered = async () => backendsOf(await group.exchange({ timeoutMs: 500 }))
    const pods: readonly (readonly PodName[])[] = [['p3'], [], ['p5']]
    for (const each of pods) {
      apply({ ...WEB, pods: each }, { ...NFS, pods: each }, EMPTY, EMPTY_UDP)
      if (each.length > 0) {
        await eventually(`it moves to ${each.join()}`, async () => (await answered()).join() === each.join())
        continue
      }
      await eventuallyFrom(ask(udp, 'udp'), ['EPERM'])
      assert.deepEqual(await answered(), ['p3'])
    }
    assert.deepEqual(backendsOf(await stream.exchange()), ['p1'])
    await group.close()
    await stream.close()
  })

  test('without the annotation its sockets are served as any others', async () => {
    apply({ ...WEB, kernelSockets: false }, NFS, EMPTY, EMPTY_UDP)
    await eventually('the peer is a backend', async () => {
      const group = await n1.open({ to: `${WEB.clusterIP}:80` })
      const [answer] = group.answers
      assert.ok(answer?.ok)
      const { stdout } = await n1.exec(['ss', '-Htn', `sport = :${answer.local.port}`])
      await group.close()
      return stdout.trim().endsWith(`${PODS[answer.backend as PodName].ipv4}:8080`)
    })
  })
})
