/** All reflectors of a cluster, on an API server without a network and by a clock that is told what time it is. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Encoder, type Encoding } from '../../../tools/apiserver/encoder.ts'
import { KINDS, type Manifest, type Resource } from '../../../tools/apiserver/kinds.ts'
import { ObjectStore, type StoreEvent } from '../../../tools/apiserver/objects.ts'
import { Pages } from '../../../tools/apiserver/pages.ts'
import { expectedState } from '../../../tools/cases/expected.ts'
import { service, slice } from '../../../tools/cases/manifests.ts'
import { FakeClock } from '../../clock.fake.ts'
import { desiredState, nodeFacts } from '../../model/desired.ts'
import { Sharing } from '../sharing.ts'
import { Store } from '../store.ts'
import type { Answer, Connection } from './connection.ts'
import { Reflector } from './reflector.ts'
import { resourcesFor } from './resources.ts'
import { defaultTiming, type Timing } from './timing.ts'

const CONTENT_TYPES = { json: 'application/json', protobuf: 'application/vnd.kubernetes.protobuf' }

/** What comes in over a connection. */
class Stream implements AsyncIterable<Buffer> {
  #chunks: (Buffer | 'end' | Error)[] = []
  #wake = Promise.withResolvers<void>()

  push(...chunks: readonly (Buffer | 'end' | Error)[]): void {
    this.#chunks.push(...chunks)
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk === undefined) await this.#wake.promise
      else if (chunk === 'end') return
      else if (chunk instanceof Error) throw chunk
      else yield chunk
    }
  }
}

/** An API server in memory. What it does wrong is said by its fields. */
class FakeApi implements Connection {
  readonly objects = new ObjectStore()
  readonly encoder = new Encoder()
  readonly encoding: Encoding
  readonly requests: { readonly resource: Resource; readonly query: URLSearchParams }[] = []
  readonly watches = new Map<Stream, Resource>()
  streamingLists = true
  isDown = false
  /** Where bytes are cut into chunks. */
  cut = (bytes: Buffer): Buffer[] => [bytes]
  readonly #pages = new Pages()

  constructor(encoding: Encoding = 'protobuf') {
    this.encoding = encoding
    this.objects.onEvent((event) => {
      for (const [stream, resource] of this.watches)
        if (resource === event.resource) this.#tell(stream, event)
    })
  }

  async get(target: string, _accept: string, signal: AbortSignal): Promise<Answer> {
    if (this.isDown) throw new Error('connect ECONNREFUSED')
    const { pathname, searchParams: query } = new URL(target, 'https://server')
    const info = Object.values(KINDS).find(({ base, resource }) => `${base}/${resource}` === pathname)
    assert.ok(info !== undefined, pathname)
    const { resource } = info
    this.requests.push({ resource, query })
    const stream = new Stream()
    signal.addEventListener('abort', () => stream.push(new Error('aborted')))
    const status = query.has('watch')
      ? this.#watch(stream, resource, query)
      : this.#list(stream, resource, query)
    return {
      status,
      contentType: CONTENT_TYPES[this.encoding],
      retryAfterMs: undefined,
      body: stream,
      refuseCredentials: () => assert.fail('nobody said 401'),
    }
  }

  /** Ends all watches, well or badly. */
  endWatches(how: 'end' | Error): void {
    for (const stream of this.watches.keys()) stream.push(how)
    this.watches.clear()
  }

  #list(stream: Stream, resource: Resource, query: URLSearchParams): number {
    const { objects } = this
    const limit = Number(query.get('limit') ?? 0)
    const token = query.get('continue')
    const page =
      token === null
        ? this.#pages.first(objects.list(resource), objects.revision, limit)
        : this.#pages.next(token, limit, objects.compacted)
    if (page === undefined) return this.#refuse(stream, 410, 'Expired')
    const body = this.encoder.list(resource, page.metadata, page.objects, this.encoding)
    stream.push(...this.cut(body), 'end')
    return 200
  }

  #watch(stream: Stream, resource: Resource, query: URLSearchParams): number {
    const isList = query.get('sendInitialEvents') === 'true'
    if (isList && !this.streamingLists) return this.#refuse(stream, 422, 'Invalid')
    if (isList) {
      for (const object of this.objects.list(resource))
        this.#tell(stream, { type: 'ADDED', object, resource })
      const metadata = {
        resourceVersion: String(this.objects.revision),
        annotations: { 'k8s.io/initial-events-end': 'true' },
      }
      stream.push(...this.cut(this.encoder.bookmark(resource, metadata, this.encoding)))
    } else {
      const events = this.objects.eventsSince(resource, Number(query.get('resourceVersion')))
      if (events === undefined) return this.#refuse(stream, 410, 'Expired')
      for (const event of events) this.#tell(stream, event)
    }
    this.watches.set(stream, resource)
    return 200
  }

  #refuse(stream: Stream, code: number, reason: string): number {
    stream.push(this.encoder.status({ code, reason, message: '' }, this.encoding), 'end')
    return code
  }

  #tell(stream: Stream, { type, object, resource }: Pick<StoreEvent, 'type' | 'object' | 'resource'>): void {
    stream.push(...this.cut(this.encoder.event(type, resource, object, this.encoding)))
  }
}

/** The reflectors of a node with the server that they ask. */
class Rig implements Disposable {
  readonly api: FakeApi
  readonly clock = new FakeClock()
  readonly store = new Store('node-a', { changed: () => undefined, note: () => undefined })
  readonly reflectors: Reflector[]
  readonly notes: string[] = []
  listed = 0
  readonly #abort = new AbortController()

  constructor(api: FakeApi, timing: Partial<Timing> = {}) {
    this.api = api
    const listener = this.store.attach('kubernetes')
    const sharing = new Sharing()
    this.reflectors = resourcesFor('node-a').map(
      (resource) =>
        new Reflector({
          resource,
          connection: api,
          listener: {
            apply: (changes) => listener.apply(changes),
            listed: () => {
              this.listed += 1
            },
            changed: () => undefined,
            note: (message) => this.notes.push(message),
          },
          sharing,
          contentType: api.encoding,
          clock: this.clock,
          timing: { ...defaultTiming, pageSize: 2, ...timing },
          random: () => 0.5,
        }),
    )
    for (const reflector of this.reflectors) void reflector.run(this.#abort.signal)
  }

  /** Lets everything settle: pauses pass, and what is silent is given up. */
  async settle(ms = 200_000): Promise<void> {
    await this.clock.advance(ms)
  }

  get desired() {
    const { cluster } = this.store
    return desiredState(cluster, nodeFacts('node-a', cluster.node, [])).desired
  }

  /** What the server's objects mean, all at once. */
  get expected() {
    const resources = Object.keys(KINDS) as Resource[]
    return expectedState(
      resources.flatMap((resource) => this.api.objects.list(resource)),
      'node-a',
    )
  }

  [Symbol.dispose](): void {
    this.#abort.abort()
  }
}

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
    await rig.settle(defaultTiming.inactivityMs)
    assert.equal(api.watches.size, 4)
    assert.deepEqual(rig.desired, rig.expected)
    assert.equal(
      api.requests.filter(({ query }) => !query.has('resourceVersion')).length,
      4,
      'nothing was listed anew',
    )
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
      await rig.settle(0)
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
