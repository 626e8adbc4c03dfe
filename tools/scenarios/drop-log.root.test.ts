/** What the log says of connections that are refused: the service, who asked, and why, soon and not too often. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Daemon, Stage } from '../cluster/index.ts'
import { PODS } from '../cluster/index.ts'
import { assertAllFail, eventually, startNodes } from './kit.ts'

const TO = '10.97.0.1:80'
const TO6 = '[fd00:10:97::1]:80'
const EMPTY = { name: 'empty', clusterIP: '10.97.0.1', secondClusterIP: 'fd00:10:97::1' } as const
const GUARDED = {
  name: 'guarded',
  clusterIP: '10.97.0.2',
  ingress: ['203.0.113.77'],
  sourceRanges: ['198.51.100.0/24'],
  pods: ['p1'],
} as const

describe('a refusal', () => {
  let stage: Stage
  let daemon: Daemon
  before(async () => {
    stage = await startNodes({ services: [EMPTY, GUARDED], flags: ['--logging-format', 'json'] })
    daemon = stage.daemon('n1')
  })
  after(() => stage[Symbol.asyncDispose]())

  /** The lines about packets and calls that ended. */
  function told(): Record<string, unknown>[] {
    const records = daemon
      .said()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line): Record<string, unknown> => JSON.parse(line))
    return records.filter(({ msg }) => /^(refused|dropped): /.test(String(msg)))
  }

  test('of a pod is a line with the service, both ends and the device', async () => {
    const answers = await stage.cluster.member('p2').request({ to: TO, count: 30 })
    assertAllFail(answers, 'ECONNREFUSED')
    await eventually('the line is there', () => told().length > 0)
    const [line] = told()
    // How many more had been counted when it was written is a matter of time.
    const { ts: _ts, from, device, more: _more, ...rest } = line ?? assert.fail()
    assert.deepEqual(rest, {
      level: 'info',
      service: 'scenario/empty:main',
      protocol: 'TCP',
      to: TO,
      msg: 'refused: the service has no endpoint that is ready; see its EndpointSlices and pods',
    })
    assert.match(String(from), new RegExp(`^${PODS.p2.ipv4.replaceAll('.', '\\.')}:\\d+$`))
    assert.match(String(device), /\w/)
  })

  test('of the same service is no second line', async () => {
    assertAllFail(await stage.cluster.member('p3').request({ to: TO, count: 30 }), 'ECONNREFUSED')
    assertAllFail(await stage.cluster.member('p3').request({ to: TO6, count: 3 }), 'ECONNREFUSED')
    // What comes after it in the ring has been read, so it has been, too.
    assertAllFail(await stage.cluster.member('p3').request({ to: '10.97.0.1:81', count: 1 }), 'ECONNREFUSED')
    await eventually('the line of another reason is there', () => told().length > 1)
    const lines = told().map(({ msg, to }) => [String(msg).split(';')[0], to])
    assert.deepEqual(lines.slice(1), [
      ['refused: the ClusterIP is that of a Service without such a port', '10.97.0.1:81'],
    ])
  })

  test('of a process of the node names the process', async () => {
    const answers = await stage.cluster.node('n1').request({ to: '203.0.113.77:80', count: 1 })
    assertAllFail(answers, 'ETIMEDOUT')
    await eventually('the line is there', () => told().length > 2)
    const { msg, service, to, process: pid, from, device } = told()[2] ?? assert.fail()
    assert.match(String(msg), /loadBalancerSourceRanges$/)
    assert.deepEqual([service, to], ['scenario/guarded:main', '203.0.113.77:80'])
    assert.ok(Number(pid) > 0)
    assert.deepEqual([from, device], [undefined, undefined])
  })
})
