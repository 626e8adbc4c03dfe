import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { FakeClock } from '../clock.fake.ts'
import type { SyncReport } from '../dataplane/dataplane.ts'
import { emptyModel, updateDesired } from '../model/desired.ts'
import { makeEndpoint, makeNodeFacts, makePort, makeService, makeSlice } from '../model/fixtures.ts'
import type { DesiredState, NodeFacts, Service, ServiceKey } from '../model/types.ts'
import type { SourceListener } from '../source/source.ts'
import { Store } from '../source/store.ts'
import { SyncLoop } from './loop.ts'
import type { SyncPacing } from './parts.ts'

const pacing = { minIntervalMs: 10, retryMinMs: 100, retryMaxMs: 30_000, turnMs: 0, maxIntervalMs: 3_600_000 }
const clean: SyncReport = { written: 1, deleted: 0, unchanged: 0, failed: [], durationMs: 1 }

/** A dataplane that keeps what it was told, and fails when it is asked to. */
class FakeDataplane {
  readonly #clock: FakeClock
  readonly calls: string[] = []
  held: DesiredState = { services: new Map(), healthChecks: new Map(), serviceCIDRs: [] }
  /** How the next syncs end: an error, or what the kernel refuses. Well, if nothing is said. */
  readonly endings: (Error | readonly string[])[] = []
  /** Set, the syncs wait for it. */
  gate: Promise<void> | undefined

  constructor(clock: FakeClock) {
    this.#clock = clock
  }

  async sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport> {
    this.calls.push(`${this.#clock.nowMs()} ${changed === undefined ? 'all' : [...changed].sort().join('+')}`)
    await this.gate
    const ending = this.endings.shift() ?? []
    if (ending instanceof Error) throw ending
    if (ending.length === 0) this.#hold(desired, changed)
    return { ...clean, failed: ending, isLate: ending.includes('ipv4') }
  }

  /** Takes over only what it was told of, as a real one does. */
  #hold(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): void {
    const services = new Map(this.held.services)
    for (const key of changed ?? new Set([...services.keys(), ...desired.services.keys()])) {
      const wanted = desired.services.get(key)
      if (wanted === undefined) services.delete(key)
      else services.set(key, wanted)
    }
    this.held = { ...desired, services }
  }
}

interface Rig extends AsyncDisposable {
  readonly clock: FakeClock
  readonly dataplane: FakeDataplane
  readonly source: SourceListener
  readonly loop: SyncLoop<typeof emptyModel>
  /** What the observer heard. */
  readonly heard: string[]
  readonly facts: { node: NodeFacts; broken: boolean; computing?: (keys: ReadonlySet<ServiceKey>) => void }
  set(name: string, fields?: Partial<Service> | undefined): void
  remove(name: string): void
}

/** The loop with the real store and model, running; `synced` says whether the source has told everything. */
function makeRig(synced = true, pace: SyncPacing = pacing): Rig {
  const clock = new FakeClock()
  const dataplane = new FakeDataplane(clock)
  const heard: string[] = []
  const facts: Rig['facts'] = { node: makeNodeFacts(), broken: false }
  const store = new Store('n1', { changed: () => loop.request(), note: () => undefined })
  const loop: SyncLoop<typeof emptyModel> = new SyncLoop(
    {
      inputs: store,
      model: {
        empty: emptyModel,
        update: (...args) => {
          if (facts.broken) throw new Error('model broken')
          facts.computing?.(args[3])
          return updateDesired(...args)
        },
      },
      node: () => ({ ...facts.node }),
      dataplane,
      clock,
      observer: {
        synced: ({ first, changed, waitedMs }) =>
          heard.push(`${first ? 'first ' : ''}synced ${changed?.size ?? 'all'} after ${waitedMs}`),
        failed: (error, retryInMs) =>
          heard.push(`${error instanceof Error ? error.message : error}, again in ${retryInMs}`),
        problems: (appeared, gone) => {
          for (const { object, field } of appeared) heard.push(`problem ${object} ${field}`)
          for (const { object, field } of gone) heard.push(`gone ${object} ${field}`)
        },
      },
    },
    pace,
  )
  const source = store.attach('fake')
  const stopper = new AbortController()
  const running = loop.run(stopper.signal)
  if (synced) source.synced()
  const apply = (name: string, object: Service | undefined) =>
    source.apply([{ kind: 'Service', key: `default/${name}`, object }])
  return {
    clock,
    dataplane,
    source,
    loop,
    heard,
    facts,
    set: (name, fields) => apply(name, makeService({ name, ...fields })),
    remove: (name) => apply(name, undefined),
    [Symbol.asyncDispose]: async () => {
      stopper.abort()
      await running
      assert.equal(clock.nextDueMs, undefined, 'no timer is left')
    },
  }
}

describe('before every source is synced', () => {
  test('nothing is written, however much is asked for', async () => {
    await using rig = makeRig(false)
    rig.set('a')
    rig.loop.request()
    await rig.clock.advance(10_000_000)
    assert.deepEqual(rig.dataplane.calls, [])
    assert.deepEqual(rig.loop.state(), {
      synced: false,
      lastSyncMs: undefined,
      pendingSinceMs: 0,
      lastQueuedMs: 0,
      unwrittenSinceMs: undefined,
      lastReport: undefined,
    })
    rig.source.synced()
    assert.equal(rig.loop.state().unwrittenSinceMs, 10_000_000)
    await rig.clock.advance(0)
    assert.deepEqual(rig.dataplane.calls, ['10000000 all'])
    assert.deepEqual(rig.heard, ['first synced all after 10000000'])
    assert.equal(rig.loop.state().synced, true)
  })

  test('problems of sources are told, for they may be why', async () => {
    await using rig = makeRig(false)
    rig.source.problems([{ object: 'Folder /x', field: '', message: 'cannot be read', place: '/x' }])
    assert.deepEqual(rig.heard, ['problem Folder /x '])
  })
})

describe('pace', () => {
  test('the first sync is of everything, the next ones of what changed', async () => {
    await using rig = makeRig()
    rig.set('a')
    await rig.clock.advance(0)
    rig.set('b', { clusterIPs: ['10.96.0.2'] })
    await rig.clock.advance(100)
    rig.remove('a')
    await rig.clock.advance(100)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '10 default/b', '100 default/a'])
    assert.deepEqual([...rig.dataplane.held.services.keys()], ['default/b'])
  })

  test('ServiceCIDRs that change are synced, with whatever else changed, and once', async () => {
    await using rig = makeRig()
    rig.set('a')
    await rig.clock.advance(0)
    const range = (cidrs: readonly string[]) =>
      rig.source.apply([{ kind: 'ServiceCIDR', key: 'kubernetes', object: { name: 'kubernetes', cidrs } }])
    range(['10.96.0.0/12'])
    await rig.clock.advance(100)
    assert.deepEqual(rig.dataplane.held.serviceCIDRs, ['10.96.0.0/12'])
    range(['10.96.0.0/12', 'bad'])
    await rig.clock.advance(100)
    rig.set('b', { clusterIPs: ['10.96.0.2'] })
    range([])
    await rig.clock.advance(100)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '10 ', '100 ', '200 default/b'])
    assert.deepEqual(rig.dataplane.held.serviceCIDRs, [])
    assert.deepEqual(
      rig.heard.filter((text) => text.includes('ServiceCIDR')),
      ['problem ServiceCIDR spec.cidrs', 'gone ServiceCIDR spec.cidrs'],
    )
  })

  test('what comes within the interval is synced together; after a pause a change is synced at once', async () => {
    await using rig = makeRig()
    await rig.clock.advance(0)
    rig.set('a')
    await rig.clock.advance(4)
    rig.set('b', { clusterIPs: ['10.96.0.2'] })
    await rig.clock.advance(496)
    rig.remove('b')
    await rig.clock.advance(0)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '10 default/a+default/b', '500 default/b'])
    assert.deepEqual(rig.heard, ['first synced all after 0', 'synced 2 after 10', 'synced 1 after 0'])
  })

  test('after a sync that took long there is a pause as long, where it is to rest, and no longer than that may be', async () => {
    for (const [restMaxMs, nextMs] of Object.entries({ 0: 210, 50: 250, 1000: 400 })) {
      await using rig = makeRig(true, { ...pacing, restMaxMs: Number(restMaxMs) })
      const gate = Promise.withResolvers<void>()
      rig.dataplane.gate = gate.promise
      rig.set('a')
      await rig.clock.advance(100)
      rig.set('b', { clusterIPs: ['10.96.0.2'] })
      await rig.clock.advance(100)
      gate.resolve()
      await rig.clock.advance(1000)
      assert.deepEqual(rig.dataplane.calls, ['0 all', `${nextMs} default/b`])
    }
  })

  test('what comes during a sync is synced after it', async () => {
    await using rig = makeRig()
    const gate = Promise.withResolvers<void>()
    rig.dataplane.gate = gate.promise
    await rig.clock.advance(0)
    rig.set('a')
    await rig.clock.advance(1000)
    assert.deepEqual(rig.dataplane.calls, ['0 all'], 'one at a time')
    assert.equal(rig.loop.state().pendingSinceMs, 0)
    gate.resolve()
    await rig.clock.advance(10)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '1010 default/a'])
    assert.equal(rig.loop.state().pendingSinceMs, undefined)
  })

  test('a change that changes nothing for the node does not reach the dataplane', async () => {
    await using rig = makeRig()
    rig.set('a')
    await rig.clock.advance(0)
    rig.set('a', { annotations: { unread: 'x' } })
    await rig.clock.advance(1000)
    assert.deepEqual(rig.dataplane.calls, ['0 all'])
    const { pendingSinceMs, lastQueuedMs = 0, lastSyncMs = -1 } = rig.loop.state()
    assert.ok(pendingSinceMs === undefined && lastSyncMs >= lastQueuedMs, 'nothing waits, as metrics tell')
  })

  test('once an hour everything is compared', async () => {
    await using rig = makeRig()
    await rig.clock.advance(3 * 3_600_000)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '3600000 all', '7200000 all', '10800000 all'])
  })

  test('everything is compared at once when that is asked for, once, also while a sync runs', async () => {
    await using rig = makeRig()
    rig.set('a')
    await rig.clock.advance(20)
    rig.loop.requestFull()
    await rig.clock.advance(20)
    const gate = Promise.withResolvers<void>()
    rig.dataplane.gate = gate.promise
    rig.loop.requestFull()
    await rig.clock.advance(20)
    rig.loop.requestFull()
    gate.resolve()
    await rig.clock.advance(1000)
    assert.deepEqual(
      rig.dataplane.calls.map((call) => call.split(' ')[1]),
      ['all', 'all', 'all', 'all'],
    )
  })

  test('a change of the node is one of every service that it changes', async () => {
    await using rig = makeRig()
    const hinted = makeSlice([
      makeEndpoint('10.1.1.1', { zoneHints: ['a'] }),
      makeEndpoint('10.1.1.2', { zoneHints: ['b'] }),
    ])
    rig.set('web')
    rig.set('api', { clusterIPs: ['10.96.0.2'] })
    rig.source.apply([{ kind: 'EndpointSlice', key: 'default/web-a', object: hinted }])
    await rig.clock.advance(100)
    rig.facts.node = makeNodeFacts({ zone: 'a' })
    rig.loop.request()
    await rig.clock.advance(100)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '100 default/web'])
  })
})

test('much is computed part by part, and what changes meanwhile is in the same result', async () => {
  await using rig = makeRig(false)
  const COUNT = 1000
  const address = (i: number) => `10.96.${i >> 8}.${i & 255}`
  for (let i = 0; i < COUNT; i += 1) rig.set(`s${i}`, { clusterIPs: [address(i)] })
  rig.source.synced()
  const computed: number[] = []
  rig.facts.computing = (keys) => {
    computed.push(keys.size)
    // In turns of others: one that is computed already changes, one that is not yet goes, another one comes.
    if (computed.length === 2) {
      setImmediate(() => {
        rig.set('s0', { clusterIPs: ['10.97.0.0'] })
        rig.remove('s999')
        rig.set('more', { clusterIPs: ['10.97.0.1'] })
      })
    }
  }
  await rig.clock.advance(0)
  while (rig.dataplane.calls.length === 0) await rig.clock.advance(0)
  assert.deepEqual(rig.dataplane.calls, ['0 all'])
  assert.ok(computed.length > 3 && computed.every((size) => size < COUNT / 2), computed.join())
  const { services } = rig.dataplane.held
  assert.equal(services.size, COUNT)
  assert.equal(services.get('default/s0')?.[0]?.clusterIP, '10.97.0.0')
  assert.deepEqual([services.has('default/s999'), services.has('default/more')], [false, true])
})

describe('failures', () => {
  test('when nothing could be done, everything is tried again, later each time, and then at ease', async () => {
    await using rig = makeRig()
    rig.dataplane.endings.push(new Error('one'), new Error('two'), new Error('three'))
    await rig.clock.advance(1000)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '100 all', '300 all', '700 all'])
    assert.deepEqual(rig.heard, [
      'one, again in 100',
      'two, again in 200',
      'three, again in 400',
      'first synced all after 700',
    ])
    rig.dataplane.endings.push(new Error('four'))
    rig.set('a')
    await rig.clock.advance(1000)
    assert.deepEqual(
      rig.dataplane.calls.slice(4),
      ['1000 default/a', '1100 all'],
      'the pause begins small again',
    )
  })

  test('the pause has an upper limit', async () => {
    await using rig = makeRig()
    rig.dataplane.endings.push(...Array.from({ length: 20 }, () => new Error('broken')))
    await rig.clock.advance(600_000)
    assert.match(rig.heard.at(-2) ?? '', /again in 30000$/)
  })

  test('meanwhile what waits is known to wait, and what comes waits with it', async () => {
    await using rig = makeRig()
    await rig.clock.advance(50)
    rig.dataplane.endings.push(new Error('broken'))
    rig.set('a')
    await rig.clock.advance(20)
    rig.set('b', { clusterIPs: ['10.96.0.2'] })
    await rig.clock.advance(20)
    assert.equal(rig.loop.state().pendingSinceMs, 50)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '50 default/a'])
    await rig.clock.advance(60)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '50 default/a', '150 all'])
    assert.equal(rig.loop.state().pendingSinceMs, undefined)
    assert.equal(rig.dataplane.held.services.size, 2)
  })

  test('what the kernel refused is tried again; changes of others do not wait for that', async () => {
    await using rig = makeRig()
    await rig.clock.advance(50)
    rig.dataplane.endings.push(['no room for a'])
    rig.set('a')
    await rig.clock.advance(20)
    assert.deepEqual(rig.loop.state().lastReport?.failed, ['no room for a'])
    rig.set('b', { clusterIPs: ['10.96.0.2'] })
    await rig.clock.advance(1000)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '50 default/a', '70 default/b', '150 all'])
    assert.equal(rig.dataplane.held.services.size, 2)
  })

  test('refused again and again, the pauses grow', async () => {
    await using rig = makeRig()
    rig.dataplane.endings.push(['x'], ['x'], ['x'])
    await rig.clock.advance(5000)
    assert.deepEqual(rig.dataplane.calls, ['0 all', '100 all', '300 all', '700 all'])
  })

  test('a model that throws forgets nothing', async () => {
    await using rig = makeRig()
    await rig.clock.advance(50)
    rig.facts.broken = true
    rig.set('a')
    await rig.clock.advance(20)
    rig.facts.broken = false
    await rig.clock.advance(1000)
    assert.deepEqual(rig.heard.slice(1), ['model broken, again in 100', 'synced all after 100'])
    assert.deepEqual([...rig.dataplane.held.services.keys()], ['default/a'])
  })
})

test('each problem is told once when it appears and once when it is gone', async () => {
  await using rig = makeRig()
  const broken = { ports: [makePort({ port: 0 })] }
  const problem = { object: 'File x.yaml', field: '', message: 'is malformed', place: 'x.yaml:7' }
  rig.set('a', broken)
  await rig.clock.advance(100)
  rig.source.problems([problem])
  await rig.clock.advance(100)
  rig.set('b', { clusterIPs: ['10.96.0.2'] })
  rig.source.problems([{ ...problem, place: 'x.yaml:9' }])
  await rig.clock.advance(100)
  rig.set('a')
  rig.source.problems([])
  await rig.clock.advance(100)
  assert.deepEqual(
    rig.heard.filter((line) => !line.includes('synced')),
    [
      'problem Service default/a spec.ports[0].port',
      'problem File x.yaml ',
      'gone File x.yaml ',
      'gone Service default/a spec.ports[0].port',
    ],
  )
})

test('stopping waits for the sync that runs, and begins no other', async () => {
  const rig = makeRig()
  const gate = Promise.withResolvers<void>()
  rig.dataplane.gate = gate.promise
  await rig.clock.advance(0)
  rig.set('a')
  const stopped = rig[Symbol.asyncDispose]()
  assert.equal(await Promise.race([stopped.then(() => 'stopped'), rig.clock.advance(1000)]), undefined)
  gate.resolve()
  await stopped
  assert.deepEqual(rig.dataplane.calls, ['0 all'])
})

describe('what is not written', () => {
  test('is so since it was asked for, while it waits and while it is being written', async () => {
    await using rig = makeRig()
    await rig.clock.advance(1000)
    assert.equal(rig.loop.state().unwrittenSinceMs, undefined)
    const gate = Promise.withResolvers<void>()
    rig.dataplane.gate = gate.promise
    rig.set('a')
    assert.equal(rig.loop.state().unwrittenSinceMs, 1000)
    await rig.clock.advance(5000)
    rig.set('b')
    await rig.clock.advance(5000)
    assert.equal(rig.loop.state().unwrittenSinceMs, 1000)
    gate.resolve()
    await rig.clock.advance(1000)
    assert.equal(rig.loop.state().unwrittenSinceMs, undefined)
  })

  test('stays so through syncs that fail, and not for what the kernel refuses of some services', async () => {
    await using rig = makeRig()
    await rig.clock.advance(1000)
    rig.dataplane.endings.push(new Error('broken'), ['ipv4'], ['one is refused'])
    rig.set('a')
    await rig.clock.advance(50)
    assert.equal(rig.loop.state().unwrittenSinceMs, 1000)
    await rig.clock.advance(60)
    // Nothing is another: that is no answer to what was left.
    rig.loop.request()
    await rig.clock.advance(90)
    assert.deepEqual([rig.dataplane.calls.length, rig.loop.state().unwrittenSinceMs], [3, 1000])
    await rig.clock.advance(1000)
    assert.equal(rig.loop.state().unwrittenSinceMs, undefined)
  })
})

test('whatever fails on the way, in the end the dataplane holds what is wanted', async () => {
  const ending = fc.oneof(
    { weight: 3, arbitrary: fc.constant<readonly string[]>([]) },
    fc.constant<readonly string[]>(['refused']),
    fc.constant(new Error('broken')),
  )
  const step = fc.record({
    name: fc.constantFrom('a', 'b', 'c'),
    address: fc.option(fc.constantFrom('10.96.0.1', '10.96.0.2', '10.96.0.3')),
    waitMs: fc.constantFrom(0, 3, 10, 50, 400),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(ending, { maxLength: 12 }),
      fc.array(step, { maxLength: 12 }),
      async (endings, steps) => {
        await using rig = makeRig()
        rig.dataplane.endings.push(...endings)
        const services = new Map<ServiceKey, Service>()
        for (const { name, address, waitMs } of steps) {
          const service = address === null ? undefined : makeService({ name, clusterIPs: [address] })
          if (service === undefined) services.delete(`default/${name}`)
          else services.set(`default/${name}`, service)
          rig.source.apply([{ kind: 'Service', key: `default/${name}`, object: service }])
          await rig.clock.advance(waitMs)
        }
        await rig.clock.advance(1_000_000)
        const { desired } = updateDesired(
          emptyModel,
          { services, slices: new Map(), node: undefined, serviceCIDRs: [] },
          rig.facts.node,
          new Set(services.keys()),
        )
        assert.deepEqual(rig.dataplane.held.services, new Map(desired.services))
        assert.equal(rig.loop.state().pendingSinceMs, undefined)
      },
    ),
    { numRuns: 60 },
  )
})
