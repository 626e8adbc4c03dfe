/** B45, B46 and B48: a daemon that starts again. What happens to real connections is seen in `control/main.root.test.ts`. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Status } from '../apiserver/index.ts'
import { service, slice } from './manifests.ts'
import { Recorder } from './recorder.ts'
import { eventually, Rig } from './rig.ts'

describe('B45 a partial view after a start', () => {
  const all = ['198.18.1.60:8080', '198.18.1.61:8080', '198.18.2.60:8080', '198.18.2.61:8080']

  async function firstLife(rig: Rig): Promise<Recorder> {
    rig.put(service('multi', '198.19.0.48'), service('single', '198.19.0.49'))
    rig.put(slice('multi-a', 'multi', ['198.18.1.60', '198.18.1.61']))
    rig.put(
      slice('multi-b', 'multi', ['198.18.2.60', '198.18.2.61']),
      slice('single-1', 'single', ['198.18.1.5']),
    )
    const client = await rig.syncedClient()
    await client[Symbol.asyncDispose]()
    return client.recorder
  }

  for (const streamingLists of ['served', 'invalid'] as const) {
    test(`B45 a partial view after a start: lists come slowly, piece by piece (streaming lists ${streamingLists})`, async () => {
      await using rig = await Rig.start()
      const recorder = await firstLife(rig)
      const written = recorder.writes.length
      rig.server.behaviour.streamingLists = streamingLists
      rig.server.answer({ delayMs: 100 }, { resource: 'endpointslices' })
      rig.server.behaviour.pace = { chunkBytes: 200, pauseMs: 2 }
      const client = rig.client({
        recorder,
        timing: { pageSize: 1, inactivityMs: 5000, quietWatchMs: 5000, backoffMinMs: 10, backoffMaxMs: 100 },
      })
      await eventually('it is synced', () => client.store.synced)
      await eventually('it has compared', () => recorder.syncs > 1)
      assert.equal(recorder.writes.length, written, 'there was nothing to write')
      assert.deepEqual(client.backends('t/multi'), all)
    })
  }

  test('B45 a partial view after a start: only what has really gone is taken away', async () => {
    await using rig = await Rig.start()
    const recorder = await firstLife(rig)
    const written = recorder.writes.length
    rig.put(slice('multi-a', 'multi', ['198.18.1.60']))
    const broken: Status = { code: 500, reason: 'InternalError', message: 'etcdserver: request timed out' }
    rig.server.answer({ status: broken }, { resource: 'endpointslices', times: 2 })
    const client = await rig.syncedClient({ recorder })
    assert.deepEqual(
      client.backends('t/multi'),
      all.filter((each) => each !== '198.18.1.61:8080'),
    )
    assert.deepEqual(
      recorder.writes.slice(written).map(({ key }) => key),
      ['t/multi'],
    )
  })
})

test('B46 a restart flushes: however often it starts again, it writes nothing that is there', async () => {
  await using rig = await Rig.start()
  rig.put(
    service('live', '198.19.0.10', {
      type: 'NodePort',
      ports: [
        { name: 'http', protocol: 'TCP', port: 80, nodePort: 30090 },
        { name: 'quic', protocol: 'UDP', port: 443, nodePort: 30091 },
      ],
    }),
    slice('live-1', 'live', ['198.18.1.5', '198.18.2.6'], {
      ports: [
        { name: 'http', protocol: 'TCP', port: 8080 },
        { name: 'quic', protocol: 'UDP', port: 8443 },
      ],
    }),
  )
  const recorder = new Recorder()
  let entries = 0
  for (let life = 0; life < 20; life += 1) {
    const syncs = recorder.syncs
    await using client = rig.client({ recorder, contentType: life % 2 === 0 ? 'protobuf' : 'json' })
    await eventually('it has compared', () => recorder.syncs > syncs)
    if (life === 0) entries = recorder.entries
    assert.deepEqual(client.backends('t/live', 'quic'), ['198.18.1.5:8443', '198.18.2.6:8443'])
  }
  assert.equal(recorder.writes.length, 1)
  assert.equal(recorder.entries, entries, 'no map entry was written again')
})

describe('B48 the way to the API server', () => {
  const kubernetes = (address: string | undefined) =>
    slice('kubernetes-1', 'kubernetes', address === undefined ? [] : [address], {
      ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
    })
  const own = service('kubernetes', '198.19.0.1', { ports: [{ name: 'https', protocol: 'TCP', port: 443 }] })

  test('B48 the way to the API server: an address that was given beats the one in the kubeconfig', async () => {
    await using rig = await Rig.start()
    // Nobody is there: the way that depends on what the proxy is to provide.
    rig.configure({ server: 'https://198.19.0.1:443' })
    rig.put(own, kubernetes('192.0.2.21'))
    const client = await rig.syncedClient({ apiServer: rig.server.url })
    rig.put(kubernetes(undefined))
    await rig.converged(client)
    rig.put(kubernetes('192.0.2.22'))
    await rig.converged(client)
    assert.deepEqual(client.backends('t/kubernetes'), ['192.0.2.22:6443'])
  })

  test('B48 the way to the API server: IPv6, in the kubeconfig and given', async () => {
    await using rig = await Rig.start({ host: '::1' })
    rig.put(own, kubernetes('192.0.2.21'))
    await rig.syncedClient()
    await rig.syncedClient({ apiServer: `[::1]:${rig.server.port}` })
  })

  test('B48 the way to the API server: what is in the kernel stays while there is none, and the reason is told', async () => {
    await using rig = await Rig.start()
    rig.put(own, kubernetes('192.0.2.21'))
    const first = await rig.syncedClient()
    await first[Symbol.asyncDispose]()
    const { recorder } = first
    await rig.server.down()
    rig.put(kubernetes('192.0.2.22'))
    const written = recorder.writes.length
    const second = rig.client({ recorder })
    await eventually('it is told', () =>
      second.store.problems.some(({ message }) => message.includes('ECONNREFUSED')),
    )
    assert.deepEqual([recorder.writes.length, second.store.synced], [written, false])
    await rig.server.up()
    await rig.converged(second)
    assert.deepEqual(second.backends('t/kubernetes'), ['192.0.2.22:6443'])
  })
})
