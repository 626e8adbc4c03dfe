/** All reflectors of a cluster together. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import type { Manifest } from '../../../tools/apiserver/kinds.ts'
import { service, slice } from '../../../tools/cases/manifests.ts'
import { FakeApi, ReflectorRig as Rig } from '../../../tools/cases/reflectors.ts'
import { defaultTiming } from './timing.ts'

const web = service('web', '10.96.0.1')
const webSlice = (address: string): Manifest => slice('web-1', 'web', [address])

describe('a cluster', () => {
  for (const streamingLists of [true, false]) {
    test(`is listed and followed (${streamingLists ? 'streaming lists' : 'pages'})`, async () => {
      const api = new FakeApi()
      api.streamingLists = streamingLists
      for (let i = 0; i < 5; i++) api.objects.put(service(`s${i}`, `10.96.1.${i}`))
      api.objects.put(web)
      using rig = new Rig(api)
      await rig.settle(0)
      assert.equal(rig.listed, 4)
      assert.equal(rig.store.cluster.services.size, 6)
      api.objects.put(webSlice('10.1.1.1'))
      api.objects.delete('services', 't/s0')
      await rig.settle(0)
      assert.deepEqual(rig.desired, rig.expected)
      assert.equal(rig.store.cluster.services.size, 5)
      assert.ok(rig.reflectors.every(({ trouble }) => trouble === undefined))
    })
  }

  test('that is away is asked again, and what has gone meanwhile is removed', async () => {
    const api = new FakeApi()
    api.objects.put(web)
    api.objects.put(service('old', '10.96.0.9'))
    using rig = new Rig(api)
    await rig.settle(1000)
    api.isDown = true
    api.endWatches(new Error('reset'))
    await rig.settle()
    assert.deepEqual(
      rig.reflectors.map(({ trouble }) => trouble?.about),
      ['server', 'server', 'server', 'server'],
    )
    assert.equal(rig.store.cluster.services.size, 2, 'what is known stays')
    api.objects.delete('services', 't/old')
    api.objects.compact()
    api.isDown = false
    await rig.settle(70_000)
    assert.deepEqual([...rig.store.cluster.services.keys()], ['t/web'])
    assert.ok(rig.reflectors.every(({ trouble }) => trouble === undefined))
  })

  test('in which a watch says nothing for too long is watched anew, from where it was', async () => {
    const api = new FakeApi()
    api.objects.put(web)
    using rig = new Rig(api)
    await rig.settle(1000)
    const silent = [...api.watches.keys()]
    for (const stream of silent) api.watches.delete(stream)
    api.objects.put(webSlice('10.1.1.1'))
    await rig.settle(defaultTiming.quietWatchMs)
    assert.equal(api.watches.size, 4)
    assert.deepEqual(rig.desired, rig.expected)
    assert.equal(
      api.requests.filter(({ query }) => !query.has('resourceVersion')).length,
      4,
      'nothing was listed anew',
    )
  })

  test('over connections that nobody pings is known to be silent within a minute', async () => {
    const api = new FakeApi()
    api.pinged = false
    api.objects.put(web)
    using rig = new Rig(api)
    await rig.settle(1000)
    // First the streams that began as lists, then watches.
    for (const address of ['10.1.1.1', '10.1.1.2']) {
      api.watches.clear()
      api.objects.put(webSlice(address))
      await rig.settle(60_000)
      assert.equal(api.watches.size, 4)
      assert.deepEqual(rig.desired, rig.expected)
    }
    assert.ok(rig.reflectors.every(({ trouble }) => trouble === undefined))
    // What is well but quiet is not taken for silent: the server ends each watch before that.
    const limits = api.requests.slice(-4).map(({ query }) => Number(query.get('timeoutSeconds')))
    assert.deepEqual(limits, [38, 38, 38, 38])
    const before = rig.notes.length
    for (let i = 0; i < 10; i++) {
      await rig.settle(38_000)
      api.endWatches('end')
    }
    assert.ok(rig.notes.slice(before).every((note) => / watch: closed /.test(note)))
    assert.equal(rig.notes.length - before, 4 * 9)
  })

  test('over connections that are pinged may be quiet for longer than a minute', async () => {
    const api = new FakeApi()
    using rig = new Rig(api)
    await rig.settle(1000)
    const before = api.requests.length
    await rig.settle(defaultTiming.quietWatchMs - 2000)
    assert.equal(api.requests.length, before)
    await rig.settle(3000)
    assert.equal(api.requests.length, before + 4)
    assert.ok(api.requests.slice(-4).every(({ query }) => query.get('timeoutSeconds') === '450'))
  })

  test('that does not even answer is asked anew within a minute', async () => {
    const api = new FakeApi()
    api.isMute = true
    using rig = new Rig(api)
    await rig.settle(59_000)
    assert.equal(api.unanswered, 4)
    api.isMute = false
    await rig.settle(3000)
    assert.equal(rig.listed, 4)
  })

  test('is fresh as long as the server says anything, and stalled when asking again does not help', async () => {
    const api = new FakeApi()
    using rig = new Rig(api)
    const stalled = () => rig.reflectors.filter(({ freshness }) => freshness.isStalled).length
    const ages = () => rig.reflectors.map(({ freshness }) => freshness.ageMs)
    assert.deepEqual(ages(), [undefined, undefined, undefined, undefined])
    await rig.settle(0)
    assert.deepEqual(ages(), [0, 0, 0, 0])
    await rig.settle(5000)
    api.objects.put(web)
    await rig.settle(1000)
    assert.deepEqual(ages(), [1000, 6000, 6000, 6000])
    assert.deepEqual(
      rig.reflectors.map(({ freshness }) => freshness.kind),
      ['Service', 'EndpointSlice', 'Node', 'ServiceCIDR'],
    )
    api.isDown = true
    await rig.settle(140_000)
    assert.equal(stalled(), 0)
    await rig.settle(20_000)
    assert.equal(stalled(), 4)
    api.isDown = false
    await rig.settle(60_000)
    assert.equal(stalled(), 0)
  })

  test('of which kinds may not be read is stalled where they must be, and not where they need not be', async () => {
    for (const code of [403, 404]) {
      const api = new FakeApi()
      for (const resource of ['services', 'servicecidrs'] as const) api.refusals.set(resource, code)
      using rig = new Rig(api)
      // The others are kept fresh by watches that end and begin anew.
      for (let minutes = 0; minutes < 15; minutes++) {
        for (const stream of api.watches.keys()) stream.push('end')
        await rig.settle(60_000)
      }
      const stalled = rig.reflectors.map(({ freshness }) => freshness).filter(({ isStalled }) => isStalled)
      assert.deepEqual(
        stalled.map(({ kind, ageMs }) => [kind, ageMs]),
        [['Service', undefined]],
      )
    }
  })

  test('is not asked more often than allowed while it ends every watch at once', async () => {
    const api = new FakeApi()
    using rig = new Rig(api)
    await rig.settle(0)
    const before = api.requests.length
    for (let i = 0; i < 600; i++) {
      api.endWatches('end')
      await rig.settle(100)
    }
    // Per kind: pauses of 1.2, 3.6, 10.8, 32.4 s and then of 45 s.
    assert.ok(api.requests.length - before <= 4 * 5, `${api.requests.length - before} requests in a minute`)
  })

  for (const garbled of ['fields', 'everything'] as const) {
    test(`of which one object is garbled (${garbled}) is followed otherwise`, async () => {
      const api = new FakeApi()
      api.objects.put(web)
      api.objects.put(webSlice('10.1.1.1'))
      using rig = new Rig(api)
      await rig.settle(1000)
      const garble = api.encoder.garble('endpointslices', 't/web-1', garbled)
      api.objects.put(webSlice('10.1.1.2'))
      api.objects.put(service('more', '10.96.0.2'))
      api.objects.put(slice('more-1', 'more', ['10.1.1.3']))
      await rig.settle(10_000)
      const problems = rig.reflectors.flatMap(({ garbage }) => garbage)
      assert.deepEqual(
        problems.map(({ object }) => object),
        [garbled === 'fields' ? 'EndpointSlice t/web-1' : 'EndpointSlice without a name'],
      )
      assert.equal(rig.desired.services.get('t/more')?.[0]?.backends[0]?.address, '10.1.1.3')
      garble[Symbol.dispose]()
      api.objects.put(webSlice('10.1.1.4'))
      await rig.settle(60_000)
      assert.deepEqual(rig.desired, rig.expected)
      if (garbled === 'fields')
        assert.deepEqual(
          rig.reflectors.flatMap(({ garbage }) => garbage),
          [],
        )
    })
  }

  test('of many objects leaves others their turns', async () => {
    const api = new FakeApi()
    api.streamingLists = false
    for (let i = 0; i < 40; i++) api.objects.put(service(`s${i}`, `10.96.1.${i}`))
    using rig = new Rig(api, { pageSize: 500, turnMs: 0 })
    let turns = 0
    while (rig.listed < 4) {
      await nextTurn()
      turns += 1
    }
    assert.ok(turns >= 40, `${turns} turns for 40 objects`)
    assert.equal(rig.store.cluster.services.size, 40)
  })
})

// ---- properties ----

/** What happens to the cluster, or to those who watch it. */
type Happening =
  | { readonly do: 'put service'; readonly name: number; readonly address: number }
  | {
      readonly do: 'put slice'
      readonly name: number
      readonly owner: number
      readonly addresses: readonly number[]
    }
  | { readonly do: 'delete service' | 'delete slice'; readonly name: number }
  | { readonly do: 'end watches' | 'cut watches' | 'compact' | 'go on' }

const small = fc.nat({ max: 4 })
const happening: fc.Arbitrary<Happening> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('put service' as const), name: small, address: small }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('put slice' as const),
      name: small,
      owner: small,
      addresses: fc.array(small, { maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('delete service' as const, 'delete slice' as const),
      name: small,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'end watches' as const,
        'cut watches' as const,
        'compact' as const,
        'go on' as const,
      ),
    }),
  },
)

async function happen(rig: Rig, what: Happening): Promise<void> {
  const { api } = rig
  switch (what.do) {
    case 'put service':
      api.objects.put(service(`s${what.name}`, `10.96.0.${what.address + 1}`))
      break
    case 'put slice': {
      const addresses = what.addresses.map((address) => `10.1.1.${address + 1}`)
      api.objects.put(slice(`slice-${what.name}`, `s${what.owner}`, addresses))
      break
    }
    case 'delete service':
      api.objects.delete('services', `t/s${what.name}`)
      break
    case 'delete slice':
      api.objects.delete('endpointslices', `t/slice-${what.name}`)
      break
    case 'end watches':
      api.endWatches('end')
      break
    case 'cut watches':
      api.endWatches(new Error('reset'))
      break
    case 'compact':
      api.objects.compact()
      break
    case 'go on':
      await rig.settle(500)
  }
}

describe('whatever happens in whatever order', () => {
  for (const encoding of ['protobuf', 'json'] as const) {
    test(`the desired state is that of one list of what is there in the end (${encoding})`, async () => {
      const sizes = fc.infiniteStream(fc.integer({ min: 1, max: 60 }))
      await fc.assert(
        fc.asyncProperty(
          fc.array(happening, { maxLength: 40 }),
          fc.boolean(),
          sizes,
          async (happenings, streamingLists, chunkSizes) => {
            const api = new FakeApi(encoding)
            api.streamingLists = streamingLists
            api.cut = (bytes) => {
              const chunks: Buffer[] = []
              for (let start = 0; start < bytes.length; ) {
                const size = chunkSizes.next().value
                chunks.push(bytes.subarray(start, start + size))
                start += size
              }
              return chunks
            }
            using rig = new Rig(api)
            for (const what of happenings) await happen(rig, what)
            await rig.settle()
            assert.deepEqual(new Map(rig.desired.services), new Map(rig.expected.services))
            assert.equal(rig.listed, 4)
          },
        ),
        { numRuns: 40 },
      )
    })
  }
})
