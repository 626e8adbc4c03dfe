/** The source on a real folder. What waits, waits for a condition. */

import assert from 'node:assert/strict'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { FakeClock } from '../../clock.fake.ts'
import { type Clock, systemClock } from '../../clock.ts'
import type { Change, SourceListener, SourceProblem } from '../source.ts'
import { defaultDelays, filesSource } from './files.ts'

const service = (name: string, clusterIP = '10.96.0.1') =>
  `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: ${clusterIP}, ports: [{port: 80}]}\n`

interface Rig extends AsyncDisposable {
  readonly folder: string
  /** `name clusterIP` of each Service, sorted. */
  services(): readonly string[]
  readonly problems: readonly SourceProblem[]
  readonly notes: readonly string[]
  readonly synced: number
  /** Calls of `apply`. */
  readonly applied: number
  path(name: string): string
  write(name: string, text: string): void
  until(condition: () => boolean): Promise<void>
  start(clock?: Clock): Promise<void>
}

/** A folder of its own, and a listener that keeps what it is told. */
function makeRig(rescanMs = 60_000): Rig {
  const root = mkdtempSync(join(tmpdir(), 'slt-files-'))
  const folder = join(root, 'manifests')
  mkdirSync(folder)
  const stopper = new AbortController()
  const objects = new Map<string, string>()
  const rig = { problems: [] as readonly SourceProblem[], notes: [] as string[], synced: 0, applied: 0 }
  const keep = ({ kind, key, object }: Change) => {
    if (object === undefined) objects.delete(key)
    else if (kind === 'Service') objects.set(key, object.clusterIPs.join())
  }
  const listener: SourceListener = {
    apply: (changes) => {
      rig.applied++
      changes.forEach(keep)
    },
    synced: () => {
      rig.synced++
    },
    problems: (problems) => {
      rig.problems = problems
    },
    note: (message) => rig.notes.push(message),
  }
  return Object.assign(rig, {
    folder,
    services: () => [...objects].map(([key, address]) => `${key.replace('default/', '')} ${address}`).sort(),
    path: (name: string) => join(folder, name),
    write: (name: string, text: string) => writeFileSync(join(folder, name), text),
    until: async (condition: () => boolean) => {
      const deadline = performance.now() + 20_000
      while (!condition()) {
        assert.ok(performance.now() < deadline, `in vain: ${JSON.stringify([[...objects], rig])}`)
        await setTimeout(2)
      }
    },
    start: (clock: Clock = systemClock) =>
      filesSource(folder, { ...defaultDelays, rescanMs }, clock).start(listener, stopper.signal),
    [Symbol.asyncDispose]: async () => {
      stopper.abort()
      rmSync(root, { recursive: true, force: true })
    },
  })
}

const list = (rig: Rig) => rig.services().join(', ')

describe('at the start', () => {
  test('everything is told before it is called synced', async () => {
    await using rig = makeRig()
    rig.write('b.yaml', service('b', '10.96.0.2'))
    rig.write('a.yml', service('a'))
    rig.write(
      'c.json',
      '{"apiVersion":"v1","kind":"Service","metadata":{"name":"c"},"spec":{"clusterIP":"10.96.0.3"}}',
    )
    rig.write('README', 'not: [a manifest')
    mkdirSync(rig.path('folder.yaml'))
    await rig.start()
    assert.equal(list(rig), 'a 10.96.0.1, b 10.96.0.2, c 10.96.0.3')
    assert.deepEqual([rig.synced, rig.applied, rig.problems], [1, 1, []])
  })

  test('an empty folder is synced too', async () => {
    await using rig = makeRig()
    await rig.start()
    assert.deepEqual([rig.synced, rig.applied], [1, 0])
  })

  test('a folder that is not there is refused, with what to do', async () => {
    await using rig = makeRig()
    rmSync(rig.folder, { recursive: true })
    await assert.rejects(rig.start(), /--source files:.*ENOENT.*; give a folder of YAML manifests$/)
    writeFileSync(rig.folder, '')
    await assert.rejects(rig.start(), /is not a folder; give a folder/)
  })

  test('kinds that are not read are noted', async () => {
    await using rig = makeRig()
    rig.write('a.yaml', 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n')
    await rig.start()
    assert.deepEqual(rig.notes, ['a.yaml: not read: Deployment default/web'])
  })
})

describe('a change is followed', () => {
  const followed: readonly [why: string, change: (rig: Rig) => void, expected: string][] = [
    ['a new file', (rig) => rig.write('b.yaml', service('b')), 'a 10.96.0.1, b 10.96.0.1'],
    ['written in place', (rig) => rig.write('a.yaml', service('a', '10.96.0.9')), 'a 10.96.0.9'],
    [
      'appended to',
      (rig) => appendFileSync(rig.path('a.yaml'), `---\n${service('b')}`),
      'a 10.96.0.1, b 10.96.0.1',
    ],
    [
      'renamed over, as editors do',
      (rig) => {
        rig.write('.a.yaml.tmp', service('a', '10.96.0.9'))
        renameSync(rig.path('a.yaml'), rig.path('a.yaml~'))
        renameSync(rig.path('.a.yaml.tmp'), rig.path('a.yaml'))
      },
      'a 10.96.0.9',
    ],
    ['deleted', (rig) => unlinkSync(rig.path('a.yaml')), ''],
    ['renamed to another name', (rig) => renameSync(rig.path('a.yaml'), rig.path('z.yaml')), 'a 10.96.0.1'],
    ['renamed to what is no manifest', (rig) => renameSync(rig.path('a.yaml'), rig.path('a.bak')), ''],
  ]
  for (const [why, change, expected] of followed) {
    test(why, async () => {
      await using rig = makeRig()
      rig.write('a.yaml', service('a'))
      await rig.start()
      change(rig)
      // What comes after it has been followed too, so that also "no difference" is waited for.
      rig.write('zz-last.yaml', service('last'))
      await rig.until(() => list(rig).includes('last'))
      await rig.until(
        () => list(rig) === [expected, 'last 10.96.0.1'].filter((part) => part !== '').join(', '),
      )
      assert.deepEqual(rig.problems, [])
    })
  }

  test('the swap of a mounted ConfigMap', async () => {
    await using rig = makeRig()
    const version = (name: string, address: string) => {
      mkdirSync(rig.path(name))
      writeFileSync(rig.path(`${name}/a.yaml`), service('a', address))
      symlinkSync(name, rig.path('..data_tmp'))
      renameSync(rig.path('..data_tmp'), rig.path('..data'))
    }
    version('..2026_01', '10.96.0.1')
    symlinkSync('..data/a.yaml', rig.path('a.yaml'))
    await rig.start()
    assert.equal(list(rig), 'a 10.96.0.1')
    version('..2026_02', '10.96.0.2')
    await rig.until(() => list(rig) === 'a 10.96.0.2')
  })

  test('one object of many: only that one is told', async () => {
    await using rig = makeRig()
    const documents = Array.from({ length: 50 }, (_, i) => service(`s${i}`))
    rig.write('a.yaml', documents.join('---\n'))
    await rig.start()
    documents[7] = service('s7', '10.96.0.7')
    rig.write('a.yaml', documents.join('---\n'))
    await rig.until(() => rig.services().includes('s7 10.96.0.7'))
    assert.equal(rig.applied, 2)
  })

  test('what no notice tells is found by the look at everything', async () => {
    await using rig = makeRig(50)
    const elsewhere = join(rig.folder, '..', 'elsewhere.yaml')
    writeFileSync(elsewhere, service('a'))
    symlinkSync(elsewhere, rig.path('a.yaml'))
    await rig.start()
    writeFileSync(elsewhere, service('a', '10.96.0.9'))
    await rig.until(() => list(rig) === 'a 10.96.0.9')
  })

  test('the folder itself is replaced: the new one is followed from then on', async () => {
    await using rig = makeRig(50)
    rig.write('a.yaml', service('a'))
    await rig.start()
    renameSync(rig.folder, `${rig.folder}-old`)
    await rig.until(() => rig.problems.length === 1)
    assert.match(rig.problems[0]?.message ?? '', /^cannot be read: .*; all objects stay as they were$/)
    assert.equal(list(rig), 'a 10.96.0.1')
    mkdirSync(rig.folder)
    rig.write('b.yaml', service('b'))
    await rig.until(() => list(rig) === 'b 10.96.0.1')
    rig.write('c.yaml', service('c'))
    await rig.until(() => list(rig) === 'b 10.96.0.1, c 10.96.0.1')
    assert.deepEqual(rig.problems, [])
  })
})

describe('a file that cannot be used', () => {
  test('malformed: its objects stay, the problem is told, and taken back', async () => {
    await using rig = makeRig()
    rig.write('a.yaml', service('a'))
    await rig.start()
    rig.write('a.yaml', 'metadata: {')
    await rig.until(() => rig.problems.length === 1)
    assert.equal(rig.problems[0]?.object, 'File a.yaml')
    assert.equal(list(rig), 'a 10.96.0.1')
    rig.write('a.yaml', service('a', '10.96.0.2'))
    await rig.until(() => list(rig) === 'a 10.96.0.2')
    assert.deepEqual(rig.problems, [])
  })

  test('unreadable: its objects stay', async () => {
    await using rig = makeRig()
    rig.write('a.yaml', service('a'))
    await rig.start()
    // A link to itself: what not even root can read.
    symlinkSync('a.yaml', rig.path('.loop'))
    renameSync(rig.path('.loop'), rig.path('a.yaml'))
    await rig.until(() => rig.problems.length === 1)
    assert.match(rig.problems[0]?.message ?? '', /^cannot be read: ELOOP.*; its objects stay as they were$/)
    assert.equal(list(rig), 'a 10.96.0.1')
  })

  test('a link to nowhere is no file', async () => {
    await using rig = makeRig()
    symlinkSync('nowhere', rig.path('a.yaml'))
    await rig.start()
    assert.deepEqual([rig.synced, rig.problems], [1, []])
  })

  test('suddenly empty: it is about to be written, and keeps its objects for a moment', async () => {
    await using rig = makeRig()
    const clock = { ...systemClock, offsetMs: 0, nowMs: () => performance.now() + clock.offsetMs }
    rig.write('a.yaml', service('a'))
    await rig.start(clock)
    truncateSync(rig.path('a.yaml'))
    rig.write('b.yaml', service('b'))
    await rig.until(() => list(rig).includes('b'))
    assert.equal(list(rig), 'a 10.96.0.1, b 10.96.0.1')
    clock.offsetMs += 2_000
    rig.write('c.yaml', service('c'))
    await rig.until(() => list(rig) === 'b 10.96.0.1, c 10.96.0.1')
  })
})

test('once stopped, no timer is left', async () => {
  const rig = makeRig()
  const clock = new FakeClock()
  await rig.start(clock)
  assert.notEqual(clock.nextDueMs, undefined)
  await rig[Symbol.asyncDispose]()
  assert.equal(clock.nextDueMs, undefined)
})
