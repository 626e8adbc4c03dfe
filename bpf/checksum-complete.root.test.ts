/**
 * Packets whose sum the NIC has computed (CHECKSUM_COMPLETE): the kernel compares it with the packet after the run, and
 * fails the run when a program has let it go wrong.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kernelRelease } from 'libbpf-ts'
import { compareReleases } from '../loader/src/release.ts'
import { EXTENSIONS, fragment, ICMP_HEADER, quote, readdressed } from '../tools/packets/build.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { NEIGHBOUR_MAC, type TestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, POINT } from '../tools/packets/own-network.ts'
import { isSound } from '../tools/packets/read.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

const CLIENT = '10.244.1.130:4000'
const FRONTEND = '10.96.0.10:80'
const BACKEND = '10.244.2.7:8080'
const EMPTY = '10.96.0.11:80'

// Before 6.17 test runs come without a sum.
for (const family of compareReleases(kernelRelease().release, '6.17') < 0 ? [] : FAMILIES) {
  const { createTestNode, group, icmp, ipHeader, messages, tcp, udp } = inFamily(family)
  // What IPv4 never asks.
  for (const flag of family === 6 ? [0, 1] : [0]) {
    const suffix = family === 4 ? '' : flag === 1 ? ', by the helper’s flag' : ', without the helper’s flag'

    function nodeWithBoth(): TestNode {
      const node = createTestNode({ constants: { have_csum_ipv6: flag } })
      for (const protocol of ['tcp', 'udp'] as const) {
        node.services.addService({ protocol, clusterIp: FRONTEND, backends: [BACKEND] })
        node.services.addService({ protocol, clusterIp: EMPTY })
      }
      return node
    }

    /** One run that must not leave the sum wrong; the packet afterwards. */
    function run(node: TestNode, program: 'ingress' | 'egress', packet: Uint8Array): Uint8Array {
      const outcome = node.datapath.run(program, readdressed(packet, POINT.mac, NEIGHBOUR_MAC), {
        ifindex: POINT.ifindex,
        checksumComplete: true,
      })
      assert.ok(!outcome.untouched)
      return outcome.packet
    }

    group(`the sum over the packet stays right${suffix}`, () => {
      const data = 'an odd number of bytes.'
      const extensions = [{ kind: EXTENSIONS.destination, body: new Uint8Array(7) }]
      const options = Uint8Array.of(7, 7, 4, 0, 0, 0, 0, 0)
      const ip = family === 4 ? { options } : { extensions }

      for (const [name, build] of [
        ['TCP', (from: string, to: string, flags: 'SYN' | 'SYN ACK') => tcp({ from, to, flags, data })],
        ['UDP', (from: string, to: string) => udp({ from, to, data })],
        [
          'with options or extensions',
          (from: string, to: string, flags: 'SYN' | 'SYN ACK') => tcp({ from, to, flags, data, ip }),
        ],
      ] as const) {
        test(`${name}, there and back`, () => {
          using node = nodeWithBoth()
          assert.ok(isSound(run(node, 'ingress', build(CLIENT, FRONTEND, 'SYN'))))
          assert.ok(isSound(run(node, 'egress', build(BACKEND, CLIENT, 'SYN ACK'))))
        })
      }

      test('fragments', () => {
        using node = nodeWithBoth()
        const long = udp({ from: CLIENT, to: FRONTEND, data: data.repeat(4) })
        for (const part of fragment(long, 40)) run(node, 'ingress', part)
      })

      // With any other length the kernel gives the sum up.
      test('a RST, and "port unreachable", as long as what they answer', () => {
        using node = nodeWithBoth()
        assert.ok(isSound(run(node, 'ingress', tcp({ from: CLIENT, to: EMPTY, flags: 'SYN' }))))
        const data = new Uint8Array(ICMP_HEADER + ipHeader).fill(7)
        assert.ok(isSound(run(node, 'ingress', udp({ from: CLIENT, to: EMPTY, data }))))
      })

      test('a datagram without a checksum', () => {
        using node = nodeWithBoth()
        run(node, 'ingress', udp({ from: CLIENT, to: FRONTEND, data, withoutChecksum: true }))
        run(node, 'egress', udp({ from: BACKEND, to: CLIENT, data, withoutChecksum: true }))
      })

      test('an ICMP error about a request', () => {
        using node = nodeWithBoth()
        const there = run(node, 'ingress', tcp({ from: CLIENT, to: FRONTEND, flags: 'SYN', data }))
        const error = { ...messages.portUnreachable, from: '10.244.2.7', to: '10.244.1.130' }
        for (const bytes of [8, 20, 35])
          assert.ok(isSound(run(node, 'egress', icmp({ ...error, data: quote(there, bytes) }))))
      })
    })
  }
}
