/** What a story gets: the cluster, and its set-up in one family. */

import assert from 'node:assert/strict'
import { type Answer, backendsOf, type Cluster, formatSocketAddress, until } from '../../../cluster/index.ts'
import { type Instance, targetOf } from '../../addresses.ts'
import type { Deviation } from '../../report.ts'
import type { Probe, RowFamily } from '../../types.ts'
import type { ConformanceStage } from '../stage.ts'

export interface Scene {
  readonly stage: ConformanceStage
  readonly family: RowFamily
  readonly instance: Instance | undefined
}

export interface Story {
  /** Nothing else may go on: it stops what the others need. */
  readonly alone?: boolean
  /** Rejects with what is not as the table has it. Resolves with what is done otherwise than by kube-proxy, on purpose. */
  tell(scene: Scene): Promise<readonly Omit<Deviation, 'id'>[] | undefined>
}

/** Far beyond what anything takes. */
const LIMIT_MS = 20_000

export function clusterOf({ stage }: Scene): Cluster {
  return stage.cluster
}

export function instanceOf({ instance }: Scene): Instance {
  if (instance === undefined) throw new Error('the story has no set-up')
  return instance
}

/** Address and port of a place of the set-up, as text. */
export function at(scene: Scene, to: Probe['to'], more: Pick<Probe, 'clusterIP' | 'port'> = {}): string {
  return formatSocketAddress(targetOf({ to, ...more }, instanceOf(scene), scene.family))
}

export function changeTo(scene: Scene, name: string): void {
  scene.stage.change(instanceOf(scene), name)
}

/** Asks until every answer is from one of these, or fails with one of these errors. */
export async function eventuallyFrom(
  ask: () => Promise<readonly Answer[]>,
  expected: readonly string[],
): Promise<void> {
  let seen: readonly string[] = []
  await until(async () => {
    seen = backendsOf(await ask())
    return seen.length > 0 && seen.every((name) => expected.includes(name))
  }, LIMIT_MS)
  assert.ok(
    seen.every((name) => expected.includes(name)),
    `answered by ${[...new Set(seen)].join(' and ')}, not by ${expected.join(' or ')}`,
  )
}

export async function eventually(what: string, condition: () => Promise<boolean>): Promise<void> {
  assert.ok(await until(condition, LIMIT_MS), `never came about: ${what}`)
}

/** One backend answered all of it. Returns its name. */
export function onlyOne(answers: readonly Answer[], what: string): string {
  const names = new Set(backendsOf(answers))
  const [name = ''] = names
  assert.ok(names.size === 1 && answers.every(({ ok }) => ok), `${what}: ${[...names].join(' and ')}`)
  return name
}

/** The same ones as before, connection by connection. */
export function assertSame(after: readonly Answer[], before: readonly Answer[], what: string): void {
  assert.deepEqual(backendsOf(after), backendsOf(before), `${what}: others answer than before`)
}
