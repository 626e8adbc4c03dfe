/** A hundred thousand connections that nobody means: those that somebody means go on. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openPinnedMap, typedMap } from 'libbpf-ts'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import { type Flow4, flow4, flowKey4 } from '../../control/layout/generated.ts'
import type { NodeMember, Stage } from '../cluster/index.ts'
import { NODES, tally } from '../cluster/index.ts'
import { LIMIT_MS, startNodes } from './kit.ts'

const SYNS = 100_000
/** 198.18.0.0/15, from where the flood pretends to come. */
const SPOOFED = /^198\.1[89]\./
const ROUND_TRIPS = 3

describe('a flood of SYNs from made-up addresses', () => {
  const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-flood-`))
  const program = join(folder, 'flood')
  let stage: Stage
  before(async () => {
    execFileSync('clang', ['-O2', '-Wall', '-Werror', join(import.meta.dirname, 'flood.c'), '-o', program])
    stage = await startNodes({
      services: [{ name: 'web', clusterIP: '10.97.0.1', nodePort: 31_001, pods: ['p1', 'p3', 'p5'] }],
    })
    // What answers the made-up addresses is lost without a word, as in the Internet.
    execFileSync('ip', ['-n', `${stage.cluster.prefix}-router`, 'route', 'add', 'blackhole', '198.18.0.0/15'])
  })
  after(async () => {
    await stage[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  function read(node: NodeMember, map: 'flows4' | 'embryonic4'): Flow4[] {
    using opened = openPinnedMap(pinPath(node.bpfRoot, map))
    return [...typedMap(opened, flowKey4, flow4).entries()].map(([, flow]) => flow)
  }

  const isSpoofed = ({ key, to }: Flow4): boolean =>
    [key.tuple.source, key.tuple.destination, to.destination].some((address) =>
      SPOOFED.test(address.join('.')),
    )

  test('no established flow is lost, none of the flood is kept, and clients are served all the time', async (t) => {
    const { client, pod } = stage.cluster
    const n1 = stage.cluster.node('n1')
    const nodePort = `${NODES.n1.ipv4}:31001`
    const groups = await Promise.all([
      client.open({ to: nodePort, count: 300 }),
      pod('p2').open({ to: '10.97.0.1:80', count: 100 }),
      pod('p4').open({ to: '10.97.0.1:80', count: 100 }),
    ])
    // The second line of a connection finds it confirmed.
    for (const group of groups) await group.exchange()
    const kept = read(n1, 'flows4').length
    assert.ok(kept >= 2 * 500, `${kept} sides of flows`)
    const loads = await Promise.all([
      client.load({ to: nodePort, mode: 'keep', clients: 4, intervalMs: 10 }),
      pod('p2').load({ to: '10.97.0.1:80', mode: 'keep', clients: 4, intervalMs: 10 }),
      pod('p4').load({ to: '10.97.0.1:80', mode: 'new', clients: 2, intervalMs: 10, timeoutMs: LIMIT_MS }),
    ])

    await client.exec([program, NODES.n1.ipv4, '31001', String(SYNS)])
    for (let trip = 0; trip < ROUND_TRIPS; trip += 1) {
      for (const group of groups) {
        assert.deepEqual(tally(await group.exchange({ timeoutMs: LIMIT_MS })), tally(group.answers))
      }
    }
    for (const load of loads) assert.deepEqual((await load.end()).failures, [])

    const embryonic = read(n1, 'embryonic4').filter(isSpoofed).length
    t.diagnostic(`${embryonic} sides of the flood's flows are in embryonic4`)
    assert.ok(embryonic > 1000, 'the flood did not arrive')
    assert.equal(read(n1, 'flows4').filter(isSpoofed).length, 0)
    assert.ok(read(n1, 'flows4').length >= kept)
    for (const group of groups) await group.close()
  })

  test('who comes after the flood is served', async () => {
    const nodePort = `${NODES.n1.ipv4}:31001`
    const input = { to: nodePort, count: 30, concurrency: 30, timeoutMs: LIMIT_MS }
    const answers = await stage.cluster.client.request(input)
    // Netfilter may have no port left to masquerade to p5 with: then a repeated SYN goes to another one.
    assert.ok(
      answers.every((answer) => answer.ok),
      JSON.stringify(tally(answers)),
    )
  })
})
