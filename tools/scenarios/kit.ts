/** What the scenarios share: a cluster with a daemon on each node, and ways to say what should come of requests. */

import assert from 'node:assert/strict'
import type {
  Answer,
  ExecResult,
  Family,
  NodeMember,
  NodeSettings,
  PodName,
  Stage,
  StageOptions,
} from '../cluster/index.ts'
import { backendsOf, PODS, SLUICE, setStage, tally, until } from '../cluster/index.ts'
import type { Part } from './objects.ts'
import { manifest } from './objects.ts'

/** Far beyond what anything takes: for telling a failure. */
export const LIMIT_MS = 20_000

export interface NodesOptions
  extends Partial<NodeSettings>,
    Pick<StageOptions, 'mapSizes' | 'source' | 'flags' | 'foreignProgram'> {
  /** In the manifest `scenario.yaml`. */
  readonly services?: readonly Part[]
  /** Which of `examples/` too. The nodes always are. */
  readonly examples?: readonly string[]
}

/** A cluster whose daemons are ready. Everything on the machine is named after the process. */
export async function startNodes({
  services = [],
  examples = [],
  ...settings
}: NodesOptions): Promise<Stage> {
  const prefix = `slt${process.pid}`
  const stage = await setStage({ prefix, examples: ['nodes', ...examples], ...settings })
  try {
    stage.write('scenario', manifest(...services))
    await Promise.all(stage.daemons.map((daemon) => daemon.startUntilReady()))
    return stage
  } catch (error) {
    await stage[Symbol.asyncDispose]()
    throw error
  }
}

/** Every answer came, each of these backends gave its share, and all shares are equal. */
export function assertEvenly(answers: readonly Answer[], backends: readonly string[]): void {
  const share = answers.length / backends.length
  assert.deepEqual(tally(answers), Object.fromEntries(backends.toSorted().map((name) => [name, share])))
}

/** Every answer came, and from this backend. */
export function assertAllFrom(answers: readonly Answer[], backend: string, message?: string): void {
  assert.deepEqual(tally(answers), { [backend]: answers.length }, message)
}

/** No answer came, each time for this reason: `ECONNREFUSED`, `TIMEOUT`, … */
export function assertAllFail(answers: readonly Answer[], error: string, message?: string): void {
  assert.deepEqual(tally(answers), { [error]: answers.length }, message)
}

/** Asks until the answers come from exactly these backends, or fail with exactly these errors. Fails when they do not in time. */
export async function eventuallyFrom(
  ask: () => Promise<readonly Answer[]>,
  expected: readonly string[],
): Promise<void> {
  const wanted = expected.toSorted()
  let seen: string[] = []
  await until(async () => {
    seen = [...new Set(backendsOf(await ask()))].sort()
    return seen.join() === wanted.join()
  }, LIMIT_MS)
  assert.deepEqual(seen, wanted)
}

/** Waits for something that must come about. */
export async function eventually(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  assert.ok(await until(async () => await condition(), LIMIT_MS), `not in time: ${what}`)
}

/** Runs the command on a node, with its pins. */
export async function sluice(node: NodeMember, ...args: readonly string[]): Promise<ExecResult> {
  return await node.exec([process.execPath, SLUICE, ...args, '--bpf-root', node.bpfRoot], { anyCode: true })
}

/** The index of a device of a node. */
export async function ifindexOf(node: NodeMember, device: string): Promise<number> {
  const { stdout } = await node.exec(['ip', '-json', 'link', 'show', device])
  const [link]: readonly { readonly ifindex: number }[] = JSON.parse(stdout)
  if (link === undefined) throw new Error(`${node.name} has no device ${device}`)
  return link.ifindex
}

/** Who gets the new connections to a service, by its name; addresses without ports, sorted. */
export interface Lists {
  readonly cluster: readonly string[]
  readonly local: readonly string[]
}

/** The lists that the kernel of a node holds for a service of one port, in a family. */
export async function listsOf(
  node: NodeMember,
  name: string,
  family: Family = 'ipv4',
): Promise<Lists | undefined> {
  const which = ['--service', `scenario/${name}`, '--family', family]
  const { stdout } = await sluice(node, 'services', ...which, '-o', 'json')
  type Endpoints = readonly { readonly address: string }[]
  const { services }: { services: readonly { cluster: Endpoints; local: Endpoints }[] } = JSON.parse(stdout)
  const addresses = (endpoints: Endpoints) => endpoints.map(({ address }) => address).toSorted()
  const [service] = services
  return service && { cluster: addresses(service.cluster), local: addresses(service.local) }
}

/** Waits until the kernel of a node gives new connections to a service to these pods. */
export async function eventuallyLists(
  node: NodeMember,
  name: string,
  pods: readonly PodName[],
  list: keyof Lists = 'cluster',
  family: Family = 'ipv4',
): Promise<void> {
  const wanted = pods.map((pod) => PODS[pod][family]).toSorted()
  await eventually(`${name} is with ${pods.join(', ') || 'nobody'} on ${node.name}`, async () => {
    const lists = await listsOf(node, name, family)
    return lists?.[list].join() === wanted.join()
  })
}
