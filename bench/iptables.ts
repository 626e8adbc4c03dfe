/** The iptables dataplane: from objects to rules in the kernel, by both flavours of iptables, in a network namespace. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kernelOf, makeSubject } from '../control/dataplane/iptables/dataplane-kit.ts'
import { kubeProxyNode } from '../control/dataplane/iptables/test-kit.ts'
import { desiredState, updateDesired } from '../control/model/desired.ts'
import { percentile } from './measure.ts'
import type { Finding } from './result.ts'
import { serviceKey, syntheticCluster, syntheticSlice } from './synthetic.ts'

const FLAVOURS = ['nft', 'legacy'] as const
const ENDPOINTS = 10
const CHANGES = 40

/** From its start to the first service that answers, kube-proxy v1.36 in iptables mode, same lab, 1,000 × 10. */
const KUBE_PROXY_SECONDS = 6.4

export async function measureIptables(): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const flavour of FLAVOURS) {
    const small = await inNamespace((namespace, lock) => measure(namespace, lock, flavour, 1000))
    const large = await inNamespace((namespace, lock) => measure(namespace, lock, flavour, 10_000))
    const name = (size: string, what: string) => `iptables-${flavour}, ${size} × 10: ${what}`
    findings.push(
      {
        name: name('1,000', 'objects to kernel'),
        value: small.seconds,
        unit: 's',
        baseline: KUBE_PROXY_SECONDS,
        aim: KUBE_PROXY_SECONDS,
      },
      {
        name: name('1,000', 'one endpoint changed, written, median'),
        value: small.changeMs,
        unit: 'ms',
        aim: 100,
      },
      { name: name('10,000', 'objects to kernel'), value: large.seconds, unit: 's' },
      { name: name('10,000', 'one endpoint changed, written, median'), value: large.changeMs, unit: 'ms' },
    )
  }
  return findings
}

async function inNamespace<T>(act: (namespace: string, lock: string) => Promise<T>): Promise<T> {
  const namespace = `slb${process.pid}ipt`
  const folder = mkdtempSync(join(tmpdir(), namespace))
  execFileSync('ip', ['netns', 'add', namespace])
  try {
    return await act(namespace, join(folder, 'lock'))
  } finally {
    execFileSync('ip', ['netns', 'delete', namespace])
    rmSync(folder, { recursive: true })
  }
}

/** Objects → desired state → kernel, the look at what the node has included; then one service after the other changes. */
async function measure(
  namespace: string,
  lock: string,
  flavour: (typeof FLAVOURS)[number],
  services: number,
): Promise<{ seconds: number; changeMs: number }> {
  const node = kubeProxyNode()
  const cluster = syntheticCluster(services, ENDPOINTS)
  const { dataplane } = makeSubject(kernelOf(namespace, lock), { flavour, families: ['ipv4'] })
  const startMs = performance.now()
  await dataplane.start()
  let model = desiredState(cluster, node)
  const { failed } = await dataplane.sync(model.desired, undefined)
  const seconds = (performance.now() - startMs) / 1000
  assert.deepEqual(failed, [])
  const slices = new Map(cluster.slices)
  const times: number[] = []
  for (let i = 0; i < CHANGES; i++) {
    const number = (i * 37) % services
    const key = serviceKey(number)
    slices.set(key, [syntheticSlice(number, ENDPOINTS, 1)])
    const changeMs = performance.now()
    model = updateDesired(model, { ...cluster, slices }, node, new Set([key]))
    const report = await dataplane.sync(model.desired, model.changed)
    times.push(performance.now() - changeMs)
    assert.ok(report.written > 0 && report.failed.length === 0, `a change of ${key} was not written`)
  }
  await dataplane.idle()
  return { seconds, changeMs: percentile(times, 0.5) }
}
