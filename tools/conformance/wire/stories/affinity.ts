/** Session affinity that must be told in code: which backend was chosen matters. */

import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { backendsOf } from '../../../cluster/index.ts'
import { BLOCKED } from '../../addresses.ts'
import { at, changeTo, clusterOf, eventually, onlyOne, type Scene, type Story } from './story.ts'

const REQUESTS = 15
/** The service's timeout and more. */
const IDLE_MS = 4500
const TRIES = 10

async function forgetsAfterTheTimeout(scene: Scene): Promise<undefined> {
  const pod = clusterOf(scene).pod('p2')
  const to = at(scene, 'cluster-ip')
  const first = onlyOne(await pod.request({ to, count: REQUESTS }), 'within the timeout')
  for (let tries = 0; tries < TRIES; tries += 1) {
    // It is the passing of time that this is about.
    await delay(IDLE_MS)
    const [name] = backendsOf(await pod.request({ to }))
    if (name !== first) return
  }
  assert.fail(`${first} answered each time, though its timeout had passed`)
}

async function movesWhenItIsRemoved(scene: Scene): Promise<undefined> {
  const pod = clusterOf(scene).pod('p2')
  const to = at(scene, 'cluster-ip')
  const first = onlyOne(await pod.request({ to, count: REQUESTS }), 'before')
  changeTo(scene, `${first} removed`)
  await eventually('another backend', async () => !backendsOf(await pod.request({ to })).includes(first))
  onlyOne(await pod.request({ to, count: REQUESTS }), 'after')
}

async function clientsAreIndependent(scene: Scene): Promise<undefined> {
  const { client, node, pod } = clusterOf(scene)
  const clusterIP = { to: at(scene, 'cluster-ip'), count: REQUESTS }
  const nodePort = { to: at(scene, 'node-port'), count: REQUESTS }
  const each = await Promise.all([
    pod('p2').request(clusterIP),
    pod('p4').request(clusterIP),
    node('n1').request(clusterIP),
    client.request(nodePort),
    client.request({ ...nodePort, localAddress: BLOCKED[scene.family] }),
  ])
  const names = each.map((answers, i) => onlyOne(answers, `client ${i + 1}`))
  assert.ok(new Set(names).size > 1, `all clients are with ${names[0]}`)
}

async function isSharedByAddresses(scene: Scene): Promise<undefined> {
  const { client, pod } = clusterOf(scene)
  const places = ['cluster-ip', 'node-port', 'alternate-node-port'] as const
  for (const member of [pod('p2'), pod('p4'), client]) {
    const names: string[] = []
    for (const place of places) {
      names.push(...backendsOf(await member.request({ to: at(scene, place), count: 4 })))
    }
    assert.equal(new Set(names).size, 1, `${member.name}: ${names.join(' ')}`)
  }
}

export const AFFINITY_STORIES: Readonly<Record<string, Story>> = {
  'AFF-03': { tell: forgetsAfterTheTimeout },
  'AFF-07': { tell: movesWhenItIsRemoved },
  'AFF-08': { tell: clientsAreIndependent },
  'AFF-09': { tell: isSharedByAddresses },
}
