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
import { type Finding, formatNumber } from './result.ts'
import { serviceKey, syntheticCluster, syntheticSlice } from './synthetic.ts'

const FLAVOURS = ['nft', 'legacy'] as const

interface Size {
  readonly services: number
  /** Of each. */
  readonly endpoints: number
  /** One of many services takes seconds, the larger part of it iptables' own. */
  readonly changes: number
  /** Of the first writing, and of a change. */
  readonly aimSeconds?: number
  readonly aimMs?: number
}

/** From its start to the first service that answers, kube-proxy v1.36 in iptables mode, same lab, 1,000 × 10. */
const KUBE_PROXY_SECONDS = 6.4

const SIZES: readonly Size[] = [
  { services: 1000, endpoints: 10, changes: 40, aimSeconds: KUBE_PROXY_SECONDS, aimMs: 100 },
  // With so many others had complained that they do not get the lock: a change keeps it no longer than it takes.
  { services: 5000, endpoints: 1, changes: 20, aimMs: 200 },
  { services: 10_000, endpoints: 10, changes: 5 },
]

/** Of a change to the least that the same command can do when a person runs it: what is ours to save is above 1. */
const RATIO_MAX = 1.5

/** A single rule, in a chain of its own: the least that can be written. */
const SINGLE_RULE = '*nat\n:SLUICE-BENCH - [0:0]\n-A SLUICE-BENCH -j RETURN\nCOMMIT\n'

export async function measureIptables(): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const flavour of FLAVOURS) {
    for (const size of SIZES) {
      const { services, endpoints, aimSeconds, aimMs } = size
      const { seconds, changeMs, bareMs } = await inNamespace((namespace, lock) =>
        measure({ namespace, lock, flavour, ...size }),
      )
      const name = (what: string) => `iptables-${flavour}, ${formatNumber(services)} × ${endpoints}: ${what}`
      findings.push(
        {
          name: name('objects to kernel'),
          value: seconds,
          unit: 's',
          ...(aimSeconds !== undefined && { baseline: aimSeconds, aim: aimSeconds }),
        },
        {
          name: name('one endpoint changed, written, median'),
          value: changeMs,
          unit: 'ms',
          baseline: bareMs,
          ...(aimMs !== undefined && { aim: aimMs }),
        },
        {
          name: name('one endpoint changed, by a single rule in the same table'),
          value: changeMs / bareMs,
          unit: 'ratio',
          aim: RATIO_MAX,
        },
      )
    }
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
  what: Size & {
    readonly namespace: string
    readonly lock: string
    readonly flavour: (typeof FLAVOURS)[number]
  },
): Promise<{ seconds: number; changeMs: number; bareMs: number }> {
  const { namespace, lock, flavour, services, endpoints, changes } = what
  const node = kubeProxyNode()
  const cluster = syntheticCluster(services, endpoints)
  const kernel = kernelOf(namespace, lock)
  const { dataplane } = makeSubject(kernel, { flavour, families: ['ipv4'] })
  const startMs = performance.now()
  await dataplane.start()
  let model = desiredState(cluster, node)
  const { failed } = await dataplane.sync(model.desired, undefined)
  const seconds = (performance.now() - startMs) / 1000
  assert.deepEqual(failed, [])
  const slices = new Map(cluster.slices)
  const times: number[] = []
  const bareTimes: number[] = []
  for (let i = 0; i < changes; i++) {
    const number = (i * 37) % services
    const key = serviceKey(number)
    slices.set(key, [syntheticSlice(number, endpoints, 1)])
    const changeMs = performance.now()
    model = updateDesired(model, { ...cluster, slices }, node, new Set([key]))
    const report = await dataplane.sync(model.desired, model.changed)
    times.push(performance.now() - changeMs)
    assert.ok(report.written > 0 && report.failed.length === 0, `a change of ${key} was not written`)
    const bareMs = performance.now()
    const { code, stderr } = await kernel.run(
      [`iptables-${flavour}-restore`, '-w', '5', '--noflush'],
      SINGLE_RULE,
    )
    bareTimes.push(performance.now() - bareMs)
    assert.equal(code, 0, stderr)
  }
  await dataplane.idle()
  return { seconds, changeMs: percentile(times, 0.5), bareMs: percentile(bareTimes, 0.5) }
}
