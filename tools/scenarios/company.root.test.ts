/** Somebody else's programs on our hooks: we return to the head of the chain, and say so. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Stage } from '../cluster/index.ts'
import { compileStranger, NODES, startStrangers } from '../cluster/index.ts'
import { assertEvenly, eventually, eventuallyFrom, ifindexOf, startNodes } from './kit.ts'

const WEB = '10.97.0.1:80'
const NODE_PORT = `${NODES.n1.ipv4}:31001`

describe('another program ahead of ours', () => {
  const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-company-`))
  let object: string
  let stage: Stage
  before(async () => {
    object = await compileStranger(folder)
    stage = await startNodes({
      services: [{ name: 'web', clusterIP: '10.97.0.1', nodePort: 31_001, pods: ['p1', 'p5'] }],
    })
  })
  after(async () => {
    await stage[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  test('on devices of every kind: requests are served again, and the log names each device', async () => {
    const node = stage.cluster.node('n1')
    const strangers = [
      { device: 'eth0', who: 'client', to: NODE_PORT },
      { device: 'vethp2', who: 'p2', to: WEB },
      { device: 'calip4', who: 'p4', to: WEB },
    ] as const
    const children = await Promise.all(
      strangers.map(async ({ device }) =>
        startStrangers({ node, object, at: 'head', devices: await ifindexOf(node, device) }),
      ),
    )
    for (const { device, who, to } of strangers) {
      await eventually(`the log tells of ${device}`, () =>
        new RegExp(`WARN .*ahead of ours at ingress of device ${device}`).test(stage.daemon('n1').said()),
      )
      const ask = () => stage.cluster.member(who).request({ to, count: 4, timeoutMs: 500 })
      await eventuallyFrom(ask, ['p1', 'p5'])
    }
    for (const child of children) {
      const exit = once(child, 'exit')
      child.stdin?.end()
      assert.deepEqual(await exit, [0, null])
    }
    for (const { who, to } of strangers) {
      assertEvenly(await stage.cluster.member(who).request({ to, count: 4 }), ['p1', 'p5'])
    }
  })
})

describe('what others take away', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      forwardPolicyDrop: true,
      services: [{ name: 'web', clusterIP: '10.97.0.1', nodePort: 31_001, pods: ['p1', 'p5'] }],
    })
  })
  after(() => stage[Symbol.asyncDispose]())

  test('our program is detached from a device: it is attached again', async () => {
    const node = stage.cluster.node('n1')
    const ifindex = await ifindexOf(node, 'calip4')
    await node.exec(['bpftool', 'link', 'detach', 'pinned', `${node.bpfRoot}/links/${ifindex}-ingress`])
    const ask = () => stage.cluster.pod('p4').request({ to: WEB, count: 4, timeoutMs: 300 })
    await eventually('the log tells of it', () =>
      /WARN .*detached from ingress of device calip4/.test(stage.daemon('n1').said()),
    )
    await eventuallyFrom(ask, ['p1', 'p5'])
  })

  test('our rules are flushed: with the next start they are there again', async () => {
    const { node } = stage.daemon('n1')
    const ask = () => stage.cluster.client.request({ to: NODE_PORT, count: 4, timeoutMs: 300 })
    assertEvenly(await ask(), ['p1', 'p5'])
    await node.exec(['nft', 'flush', 'ruleset'])
    await node.exec(['iptables', '-P', 'FORWARD', 'DROP'])
    assert.ok((await ask()).some((answer) => !answer.ok))
    await stage.daemon('n1').kill()
    await stage.daemon('n1').startUntilReady()
    await eventuallyFrom(ask, ['p1', 'p5'])
  })
})
