/** Frames of a VLAN on its trunk are left to the VLAN's own device, which has the programs too. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPacketSocket, openPinnedMap, typedMap } from 'libbpf-ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { flow4, flowKey4 } from '../../control/layout/generated.ts'
import { udp } from '../packets/build.ts'
import { eventually, startNodes } from './kit.ts'

/** Of nobody: nothing is received by it. */
const UNUSED_ETHER_TYPE = 0x88b5
const MACS = 12

/** The same frame with a tag (IEEE 802.1Q): a priority, and the number of a VLAN, 0 for none. */
function tagged(frame: Uint8Array, vlan: number): Uint8Array {
  const tag = [0x81, 0x00, 0xe0, vlan]
  return Uint8Array.from([...frame.subarray(0, MACS), ...tag, ...frame.subarray(MACS)])
}

test('a frame of a VLAN begins no flow on the trunk; one with a priority alone does, as one without a tag', async () => {
  await using stage = await startNodes({
    services: [{ name: 'dns', clusterIP: '10.97.0.2', port: 53, protocol: 'UDP', pods: ['p1'] }],
  })
  const pod = stage.cluster.pod('p4')
  // Tells the pod its gateway's MAC.
  assert.ok((await pod.ask({ to: '10.97.0.2:53', protocol: 'udp' })).ok)
  const facts = async (...what: readonly string[]) => {
    const { stdout } = await pod.exec(['ip', '-json', ...what, 'dev', 'eth0'])
    const [first]: readonly { ifindex: number; address: string; lladdr: string }[] = JSON.parse(stdout)
    assert.ok(first)
    return first
  }
  const link = await facts('link', 'show')
  const { lladdr } = await facts('-4', 'neigh', 'show')
  using socket = openPacketSocket({
    ifindex: link.ifindex,
    etherType: UNUSED_ETHER_TYPE,
    namespace: `/run/netns/${pod.namespace}`,
    received: () => undefined,
  })
  const ask = (port: number): Uint8Array =>
    udp({
      from: `${pod.ipv4}:${port}`,
      to: '10.97.0.2:53',
      ethernet: { source: link.address, destination: lladdr },
    })
  socket.send(tagged(ask(40_007), 7))
  socket.send(tagged(ask(40_000), 0))
  socket.send(ask(40_001))

  const ports = (): number[] => {
    using embryonic = openPinnedMap(pinPath(stage.cluster.node('n1').bpfRoot, 'embryonic4'))
    const all = [...typedMap(embryonic, flowKey4, flow4).entries()].map(([{ tuple }]) => tuple.sourcePort)
    return all.filter((port) => port >= 40_000 && port < 40_010).sort()
  }
  await eventually('the last frame begins a flow', () => ports().includes(40_001))
  assert.deepEqual(ports(), [40_000, 40_001])
})
