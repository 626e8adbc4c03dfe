/**
 * Linux gives one local port to connections to different destinations. Behind two frontends with one backend, and beside
 * a connection straight to it, they are one tuple: something has to keep them apart.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Answer, ConnectionGroup, Member, OpenInput, Stage } from '../cluster/index.ts'
import { FAMILIES, formatSocketAddress, NODES, PODS } from '../cluster/index.ts'
import { assertAllFrom, startNodes } from './kit.ts'

/** Two services with one pod: on the bridge of n1, on a link of its own, on the other node. */
const BEHIND = {
  p1: { ends: [1, 2], nodePorts: [31_011, 31_012] },
  p3: { ends: [3, 4], nodePorts: [31_013, 31_014] },
  p5: { ends: [5, 6], nodePorts: [31_015, 31_016] },
} as const
type Backend = keyof typeof BEHIND

const CLUSTER_IP = {
  ipv4: (end: number): string => `10.97.1.${end}`,
  ipv6: (end: number): string => `fd00:10:97:1::${end}`,
} as const

const at = (address: string, port: number): string => formatSocketAddress({ address, port })

for (const family of FAMILIES) {
  const suffix = family === 'ipv4' ? 4 : 6
  const direct = (backend: Backend): string => at(PODS[backend][family], 8080)
  const frontends = (backend: Backend): string[] =>
    BEHIND[backend].ends.map((end) => at(CLUSTER_IP[family](end), 80))
  const nodePorts = (backend: Backend): string[] =>
    BEHIND[backend].nodePorts.map((port) => at(NODES.n1[family], port))

  describe(`connections that look the same to the backend (${family})`, () => {
    let stage: Stage
    before(async () => {
      stage = await startNodes({
        // Two sides a flow, and flows that ended stay for half a minute.
        mapSizes: { [`flows${suffix}`]: 131_072, [`embryonic${suffix}`]: 65_536 },
        services: Object.entries(BEHIND).flatMap(([pod, { ends, nodePorts: ports }]) =>
          ends.map((end, index) => ({
            name: `${pod}-${index}`,
            clusterIP: CLUSTER_IP[family](end),
            nodePort: ports[index] ?? 0,
            pods: [pod as Backend],
          })),
        ),
      })
    })
    after(() => stage[Symbol.asyncDispose]())

    /** Opens connections to all of these at once, lets each speak three times, and closes them. */
    async function holdAll(
      from: Member,
      backend: Backend,
      inputs: readonly OpenInput[],
    ): Promise<readonly Answer[]> {
      const groups = await Promise.all(inputs.map((input) => from.open({ timeoutMs: 20_000, ...input })))
      for (const [index, group] of groups.entries()) {
        assertAllFrom(group.answers, backend, `opening ${inputs[index]?.to}`)
      }
      await exchangeAll(groups, backend)
      await exchangeAll(groups, backend)
      for (const group of groups) await group.close({ reset: true })
      return groups.flatMap((group) => group.answers)
    }

    async function exchangeAll(groups: readonly ConnectionGroup[], backend: Backend): Promise<void> {
      const exchanges = await Promise.all(groups.map((group) => group.exchange({ timeoutMs: 20_000 })))
      for (const [index, answers] of exchanges.entries()) {
        assertAllFrom(answers, backend)
        assert.equal(answers.length, groups[index]?.answers.length)
      }
    }

    /** How many of them share their local port with another one. */
    function sharing(answers: readonly Answer[]): number {
      const ports = answers.map((answer) => (answer.ok ? answer.local.port : 0))
      return ports.length - new Set(ports).size
    }

    for (const [client, backend] of [
      ['p2', 'p1'],
      ['p4', 'p5'],
    ] as const) {
      test(`2,000 from ${client} to each of two frontends of ${backend}, and 500 to itself, at once`, async (t) => {
        const answers = await holdAll(stage.cluster.pod(client), backend, [
          ...frontends(backend).map((to) => ({ to, count: 2000 })),
          { to: direct(backend), count: 500 },
        ])
        t.diagnostic(`${sharing(answers)} shared their port with another one`)
      })
    }

    for (const backend of ['p1', 'p5'] as const) {
      test(`2,000 from outside to each of two node ports of ${backend}, and 500 to itself, at once`, async (t) => {
        const answers = await holdAll(stage.cluster.client, backend, [
          ...nodePorts(backend).map((to) => ({ to, count: 2000 })),
          { to: direct(backend), count: 500 },
        ])
        t.diagnostic(`${sharing(answers)} shared their port with another one`)
      })
    }

    /** From one port, one after the other; then all of them speak again and again. */
    async function fromOnePort(from: Member, backend: Backend, targets: readonly string[]): Promise<void> {
      const groups: ConnectionGroup[] = []
      for (const to of targets) {
        const group = await from.open({ to, localPort: 47_000, timeoutMs: 20_000 })
        groups.push(group)
        assertAllFrom(group.answers, backend, `opening ${to}`)
        await exchangeAll(groups, backend)
      }
      for (let round = 0; round < 3; round += 1) await exchangeAll(groups, backend)
      for (const group of groups) await group.close({ reset: true })
    }

    for (const [client, backend] of [
      ['p2', 'p1'],
      ['p2', 'p3'],
      ['p4', 'p1'],
      ['p4', 'p5'],
      ['client', 'p1'],
      ['client', 'p5'],
    ] as const) {
      const services = client === 'client' ? nodePorts(backend) : frontends(backend)
      const [first = '', second = ''] = services
      for (const [order, targets] of [
        ['first', [direct(backend), first, second]],
        ['last', [first, second, direct(backend)]],
        ['in the middle', [first, direct(backend), second]],
      ] as const) {
        test(`${client} uses one port for two frontends of ${backend} and for itself, which comes ${order}`, async () => {
          await fromOnePort(stage.cluster.member(client), backend, targets)
        })
      }
    }
  })
}
