/** Pods come and go while the daemon runs: each is served as soon as it is there, and forgotten with its device. */

import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openPinnedMap } from 'libbpf-ts'
import { linksFolder } from '../../control/dataplane/bpf/pinned-links.ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { addressBytes } from '../../control/model/address.ts'
import type { PodName, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, hostDevice, NODES, PODS } from '../cluster/index.ts'
import { assertAllFrom, eventually, eventuallyFrom, ifindexOf, startNodes } from './kit.ts'

const WEB = { ipv4: '10.97.0.1:80', ipv6: '[fd00:10:97::1]:80' } as const

function clusterIPs(end: number) {
  return { clusterIP: `10.97.0.${end}`, secondClusterIP: `fd00:10:97::${end}` } as const
}

describe('devices of pods', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      services: [
        { name: 'web', ...clusterIPs(1), nodePort: 31_001, pods: ['p1', 'p5'] },
        { name: 'p2', ...clusterIPs(2), nodePort: 31_002, pods: ['p2'] },
        { name: 'p4', ...clusterIPs(4), nodePort: 31_004, pods: ['p4'] },
      ],
    })
  })
  after(() => stage[Symbol.asyncDispose]())

  const indexOf = (pod: PodName): Promise<number> =>
    ifindexOf(stage.cluster.node('n1'), hostDevice(PODS[pod]))

  /** Pinned links, and the entry in the map, of a device of n1. */
  function heldOf(ifindex: number): { readonly links: readonly string[]; readonly isInMap: boolean } {
    const { bpfRoot } = stage.cluster.node('n1')
    const names = readdirSync(linksFolder(bpfRoot)).filter((name) => name.startsWith(`${ifindex}-`))
    using devices = openPinnedMap(pinPath(bpfRoot, 'devices'))
    const key = new Uint8Array(Uint32Array.of(ifindex).buffer)
    return { links: names.sort(), isInMap: devices.lookup(key) !== undefined }
  }

  for (const pod of ['p2', 'p4'] as const) {
    const { clusterIP, secondClusterIP } = clusterIPs(pod === 'p2' ? 2 : 4)
    const own = { ipv4: `${clusterIP}:80`, ipv6: `[${secondClusterIP}]:80` } as const
    const nodePort = pod === 'p2' ? 31_002 : 31_004

    test(`${pod} loses its device: links and entry go; it gets another: it is served, as client and as backend`, async () => {
      const { cluster } = stage
      const before = await indexOf(pod)
      assert.deepEqual(heldOf(before), { links: [`${before}-egress`, `${before}-ingress`], isInMap: true })

      await cluster.unplug(pod)
      await eventually('the device is forgotten', () => {
        const { links, isInMap } = heldOf(before)
        return links.length === 0 && !isInMap
      })
      // Nobody else notices.
      await eventuallyFrom(() => cluster.pod('p1').request({ to: WEB.ipv4, count: 4 }), ['p1', 'p5'])

      await cluster.plug(pod)
      const now = await indexOf(pod)
      await eventually('the new device is attached to', () => heldOf(now).links.length === 2)
      const asking = (to: string) => cluster.pod(pod).request({ to, count: 4, timeoutMs: 2000 })
      for (const family of FAMILIES) {
        await eventuallyFrom(() => asking(WEB[family]), ['p1', 'p5'])
        assertAllFrom(await asking(own[family]), pod)
        for (const member of ['p1', 'p3', 'p6', 'n1', 'client'] as const) {
          const to =
            member === 'client'
              ? formatSocketAddress({ address: NODES.n1[family], port: nodePort })
              : own[family]
          assertAllFrom(await cluster.member(member).request({ to, count: 2 }), pod, `${member}, ${family}`)
        }
      }
    })
  }

  test('a daemon that was away forgets what went and attaches to what came', async () => {
    const { cluster } = stage
    const daemon = stage.daemon('n1')
    const before = await indexOf('p2')
    await daemon.kill()
    await cluster.unplug('p2')
    await cluster.plug('p2')
    await daemon.startUntilReady()
    assert.deepEqual(heldOf(before), { links: [], isInMap: false })
    const now = await indexOf('p2')
    assert.deepEqual(heldOf(now), { links: [`${now}-egress`, `${now}-ingress`], isInMap: true })
    await eventuallyFrom(() => cluster.pod('p2').request({ to: WEB.ipv4, count: 4 }), ['p1', 'p5'])
    assert.ok(readdirSync(join(linksFolder(daemon.node.bpfRoot))).length > 10)
  })

  for (const [address, prefix] of [
    ['192.168.1.77', '192.168.1.77/24'],
    ['2001:db8:1::77', '2001:db8:1::77/64'],
  ] as const) {
    test(`B25 an address that comes to the node serves node ports, and one that goes does not: ${address}`, async () => {
      const { client, node } = stage.cluster
      const to = formatSocketAddress({ address, port: 31_001 })
      const ask = (from: typeof client) => from.request({ to, count: 4, timeoutMs: 500 })
      const key = addressBytes(address)
      const isInMap = (): boolean => {
        const name = address.includes(':') ? 'node_addresses6' : 'node_addresses4'
        using map = openPinnedMap(pinPath(node('n1').bpfRoot, name))
        return map.lookup(key) !== undefined
      }
      await node('n1').exec(['ip', 'address', 'add', prefix, 'dev', 'eth0'])
      await eventuallyFrom(() => ask(client), ['p1', 'p5'])
      await eventuallyFrom(() => ask(node('n1')), ['p1', 'p5'])
      assert.ok(isInMap())
      await node('n1').exec(['ip', 'address', 'del', prefix, 'dev', 'eth0'])
      await eventually('nobody answers any more', async () =>
        (await ask(client)).every((answer) => !answer.ok),
      )
      await eventually('the map knows it no more', () => !isInMap())
    })
  }

  test('a bridge that changes its MAC goes on to serve', async () => {
    const { cluster } = stage
    await cluster.node('n1').exec(['ip', 'link', 'set', 'cni0', 'address', '02:00:00:00:00:99'])
    for (const pod of ['p1', 'p2'] as const) await cluster.pod(pod).exec(['ip', 'neigh', 'flush', 'all'])
    await eventuallyFrom(
      () => cluster.pod('p2').request({ to: WEB.ipv4, count: 4, timeoutMs: 1000 }),
      ['p1', 'p5'],
    )
    assertAllFrom(await cluster.pod('p1').request({ to: '10.97.0.2:80', count: 2 }), 'p2')
  })
})
