/** The daemon and the API server go and come back. Told alone: all services of the node depend on them. */

import assert from 'node:assert/strict'
import { POD_NAMES } from '../../../cluster/index.ts'
import { memberAddress } from '../../addresses.ts'
import { assertSame, at, changeTo, clusterOf, eventuallyFrom, type Scene, type Story } from './story.ts'

const BOTH = ['p1', 'p5'] as const

/** Connections of every kind of client that stay open. */
async function held(scene: Scene) {
  const { client, node, pod } = clusterOf(scene)
  return await Promise.all([
    pod('p2').open({ to: at(scene, 'cluster-ip'), count: 4 }),
    client.open({ to: at(scene, 'node-port'), count: 4 }),
    node('n1').open({ to: at(scene, 'cluster-ip'), count: 4 }),
  ])
}

/** New connections of every kind of client are answered, all of them. */
async function assertServed(scene: Scene, by: readonly string[]): Promise<void> {
  const { client, node, pod } = clusterOf(scene)
  const answers = await Promise.all([
    pod('p2').request({ to: at(scene, 'cluster-ip'), count: 4 }),
    client.request({ to: at(scene, 'node-port'), count: 4 }),
    node('n1').request({ to: at(scene, 'cluster-ip'), count: 4 }),
  ])
  const seen = new Set(answers.flat().map((answer) => (answer.ok ? answer.backend : answer.error)))
  assert.deepEqual([...seen].sort(), [...by].sort())
}

async function daemonRestarts(scene: Scene): Promise<undefined> {
  const groups = await held(scene)
  const daemon = scene.stage.daemon('n1')
  await daemon.stop()
  changeTo(scene, 'another service')
  await assertServed(scene, BOTH)
  await daemon.startUntilReady()
  const isNew = { to: at(scene, 'cluster-ip', { clusterIP: 1 }) }
  await eventuallyFrom(() => clusterOf(scene).pod('p2').request(isNew), ['p3'])
  await assertServed(scene, BOTH)
  for (const group of groups) {
    assertSame(await group.exchange(), group.answers, 'connections through the restart')
    await group.close()
  }
}

/** Stops the API server, and goes on with it whatever happens meanwhile. */
async function withoutApiServer(scene: Scene, act: () => Promise<void>): Promise<void> {
  const { apiServerProcess } = scene.stage.stage
  apiServerProcess?.kill('SIGSTOP')
  try {
    await act()
  } finally {
    apiServerProcess?.kill('SIGCONT')
  }
}

async function apiServerRestarts(scene: Scene): Promise<undefined> {
  const groups = await held(scene)
  await withoutApiServer(scene, async () => {
    // Its connections end, as those of a process that ends do.
    await clusterOf(scene).client.exec(['ss', '-K', 'sport', '=', ':6443'])
    await assertServed(scene, BOTH)
  })
  await assertServed(scene, BOTH)
  changeTo(scene, 'endpoints change')
  await eventuallyFrom(
    () =>
      clusterOf(scene)
        .pod('p2')
        .request({ to: at(scene, 'cluster-ip') }),
    ['p3'],
  )
  for (const group of groups) {
    assertSame(await group.exchange(), group.answers, 'connections through the restart')
    await group.close()
  }
}

async function unsyncedStartWritesNothing(scene: Scene): Promise<undefined> {
  await assertServed(scene, ['p1'])
  const daemon = scene.stage.daemon('n1')
  await withoutApiServer(scene, async () => {
    await daemon.kill()
    changeTo(scene, 'while it is away')
    daemon.start()
    await daemon.untilSaid(/an earlier daemon left/)
    await assertServed(scene, ['p1'])
  })
  await eventuallyFrom(
    () =>
      clusterOf(scene)
        .pod('p2')
        .request({ to: at(scene, 'cluster-ip') }),
    ['p5'],
  )
}

async function podsSeeEachOther(scene: Scene): Promise<undefined> {
  const { family } = scene
  for (const from of POD_NAMES) {
    for (const to of POD_NAMES) {
      const address = memberAddress(to, family)
      const answer = await clusterOf(scene)
        .pod(from)
        .ask({ to: family === 4 ? `${address}:8080` : `[${address}]:8080` })
      assert.ok(answer.ok, `${from} → ${to}: ${answer.ok ? '' : answer.error}`)
      assert.equal(answer.peer.address, memberAddress(from, family), `${to} sees ${from}`)
    }
  }
}

export const RESTART_STORIES: Readonly<Record<string, Story>> = {
  'SYN-10': { alone: true, tell: daemonRestarts },
  'SYN-11': { alone: true, tell: apiServerRestarts },
  'SYN-13': { alone: true, tell: unsyncedStartWritesNothing },
  'SYN-14': { tell: podsSeeEachOther },
}
