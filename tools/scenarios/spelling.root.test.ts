/** Names as long as they may be, and numbers as one does not write them: on the wire. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Stage } from '../cluster/index.ts'
import { assertAllFrom, startNodes } from './kit.ts'
import type { Part } from './objects.ts'

const NAMESPACE = `ns-${'a'.repeat(60)}`
const LONG = `svc-${'k'.repeat(58)}`
const PORT_NAME = 'http-with-15-ch'

/** A service and its slice, spelled as they are given. */
function parts(namespace: string, name: string, clusterIP: string, endpoint: string, more = {}): Part[] {
  const labels = { 'kubernetes.io/service-name': name }
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace, name },
      spec: { clusterIP, ports: [{ name: PORT_NAME, protocol: 'TCP', port: 80 }], ...more },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace, name: `slice-of-${clusterIP}`, labels },
      addressType: 'IPv4',
      ports: [{ name: PORT_NAME, protocol: 'TCP', port: 8080 }],
      endpoints: [{ addresses: [endpoint], nodeName: 'n1' }],
    },
  ]
}

describe('unusual spellings', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({
      services: [
        ...parts(NAMESPACE, `${LONG}a`, '10.97.0.1', '10.244.1.11'),
        ...parts(NAMESPACE, `${LONG}b`, '10.97.0.2', '10.244.1.12'),
        ...parts('t', 'normal', '10.97.0.3', '10.244.1.133'),
        ...parts('t', 'zero', '10.97.0.010', '10.244.1.011', { externalIPs: ['198.51.100.010'] }),
        ...parts('t', 'canon', '10.97.0.8', '10.244.1.133'),
      ],
    })
  })
  after(() => stage[Symbol.asyncDispose]())

  const ask = (address: string) =>
    stage.cluster.pod('p4').request({ to: `${address}:80`, count: 2, timeoutMs: 2000 })

  test('B57 services whose long names differ in the last letter, and one beside them', async () => {
    assertAllFrom(await ask('10.97.0.1'), 'p1')
    assertAllFrom(await ask('10.97.0.2'), 'p2')
    assertAllFrom(await ask('10.97.0.3'), 'p3')
  })

  test('B58 numbers with leading zeros are decimal, and take nothing from who has the octal ones', async () => {
    for (const address of ['10.97.0.10', '198.51.100.10']) assertAllFrom(await ask(address), 'p1', address)
    assertAllFrom(await ask('10.97.0.8'), 'p3')
    const octal = await stage.cluster.client.request({ to: '198.51.100.8:80', count: 2, timeoutMs: 500 })
    assert.ok(octal.every(({ ok }) => !ok))
  })
})
