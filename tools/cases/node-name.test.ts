/** B19: a Node object that is not there, or has another name than the host. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { node, service, slice } from './manifests.ts'
import { eventually, Rig } from './rig.ts'

const POLICY = {
  type: 'NodePort',
  externalTrafficPolicy: 'Local',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_084 }],
}

function putService(rig: Rig): void {
  rig.put(
    service('loc', '198.19.0.10', POLICY),
    slice('loc-1', 'loc', [
      '198.18.1.5',
      { addresses: ['198.18.1.6'], conditions: { ready: true } },
      { addresses: ['198.18.1.7'], conditions: { ready: true }, nodeName: 'a.hosts.example' },
    ]),
  )
}

test('B19 an endpoint is on this node if it names the Node object, whatever the host is called', async () => {
  await using rig = await Rig.start()
  rig.put(node('node-a', '192.0.2.11'))
  putService(rig)
  const client = rig.client({ needsNode: true })
  await rig.converged(client)
  const [port] = client.ports('t/loc')
  assert.deepEqual(
    port?.local.map((index) => port.backends[index]?.address),
    ['198.18.1.5'],
  )
})

test('B19 without a Node of that name nothing is done, and it is said; when it comes all works', async () => {
  await using rig = await Rig.start()
  rig.put(node('other', '192.0.2.12'))
  putService(rig)
  const client = rig.client({ needsNode: true })
  const isTold = () =>
    client.problems.some((text) => /^Node node-a {2}there is no such Node.*--node-name/.test(text))
  await eventually('it is said', isTold)
  assert.equal(client.recorder.syncs, 0)
  rig.put(node('node-a', '192.0.2.11'))
  await rig.converged(client)
  assert.equal(client.ports('t/loc')[0]?.local.length, 1)
})

test('B19 without a Node of that name a restart leaves what the kernel holds', async () => {
  await using rig = await Rig.start()
  rig.put(node('node-a', '192.0.2.11'))
  putService(rig)
  const first = rig.client({ needsNode: true })
  await rig.converged(first)
  const held = first.recorder.mapsShown()
  await first[Symbol.asyncDispose]()
  rig.server.objects.delete('nodes', 'node-a')
  rig.server.objects.delete('services', 't/loc')
  const second = rig.client({ needsNode: true, recorder: first.recorder })
  await eventually('it is said', () => second.problems.length > 0)
  assert.deepEqual(first.recorder.mapsShown(), held)
  rig.put(node('node-a', '192.0.2.11'))
  await eventually('it goes on', () => first.recorder.mapsShown().length === 0)
})
