import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { inFamily } from '../tools/packets/in-family.ts'
import { createNodeDevices, enterOwnNetwork, POINT } from '../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const family of FAMILIES) {
  const { addressBytes, createTestNode, tcp } = inFamily(family)

  const addresses = fc.tuple(...Array.from({ length: 4 }, () => fc.nat(255))).map((bytes) => bytes.join('.'))
  const FRONTEND = '10.96.0.10:80'
  const CLIENT = '10.244.1.130:4000'

  test('a packet to an address is looked at exactly when the bit is set that the control plane computes for it', () => {
    using node = createTestNode()
    fc.assert(
      fc.property(addresses, (text) => {
        const address = addressBytes(text)
        const packet = tcp({ from: CLIENT, to: `${text}:81`, flags: 'SYN' })
        node.datapath.clearFilter()
        node.datapath.clusterIps.set({ address }, { address, services: 1 })
        assert.ok(node.receive(POINT, packet).untouched)
        node.datapath.setFilterBit('backend', text)
        assert.ok(node.receive(POINT, packet).untouched, 'a backend’s bit is not a frontend’s')
        node.datapath.setFilterBit('frontend', text)
        assert.equal(node.receive(POINT, packet).verdict, 'redirect', 'an undefined port of a ClusterIP')
        node.datapath.clusterIps.delete({ address })
      }),
      { numRuns: 200 },
    )
  })

  test('an answer from an address is looked at exactly when the backend’s bit is set', () => {
    using node = createTestNode()
    const { backends } = node.services.addService({ clusterIp: FRONTEND, backends: ['10.244.2.7:8080'] })
    const [backend] = backends
    assert.ok(backend)
    fc.assert(
      fc.property(addresses, (text) => {
        fc.pre(!CLIENT.startsWith(`${text}:`))
        node.datapath.clearFilter()
        node.datapath.setFilterBit('frontend', '10.96.0.10')
        node.services.changeBackend(backend, { address: addressBytes(text) })
        const flow = new TcpConversation(node, { device: POINT, client: CLIENT, frontend: FRONTEND })
        flow.request('SYN')
        assert.equal(flow.backend, `${text}:8080`)
        assert.ok(flow.reply('SYN ACK').untouched)
        node.datapath.setFilterBit('backend', text)
        assert.ok(!flow.reply('SYN ACK').untouched)
        for (const [key] of [...node.datapath.embryonic.entries()]) node.datapath.embryonic.delete(key)
      }),
      { numRuns: 200 },
    )
  })
}
