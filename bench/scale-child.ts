/**
 * A fresh process that takes a cluster of many services from objects to the kernel, then changes one endpoint at a
 * time. Prints what it took as JSON. Started by scale.ts, with the pins' folder as its argument.
 */
import assert from 'node:assert/strict'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { BpfDataplane } from '../control/dataplane/bpf/dataplane.ts'
import { desiredState, updateDesired } from '../control/model/desired.ts'
import { OBJECT_FOLDER } from '../tools/packets/datapath.ts'
import { percentile } from './measure.ts'
import { NODE, serviceKey, syntheticCluster, syntheticSlice } from './synthetic.ts'

const SERVICES = 10_000
const ENDPOINTS = 10
const CHANGES = 300

/** Milliseconds, megabytes. */
export interface ScaleReport {
  readonly load: number
  readonly model: number
  readonly sync: number
  readonly change: { readonly median: number; readonly p99: number }
  /** The longest that the event loop was blocked while the kernel was filled. */
  readonly block: number
  readonly resident: number
}

/** Has a service lose an endpoint and get another one, over and over, each time another service. */
async function changeEndpoints(dataplane: BpfDataplane, first: ReturnType<typeof desiredState>) {
  const cluster = syntheticCluster(SERVICES, ENDPOINTS)
  const slices = new Map(cluster.slices)
  const times: number[] = []
  let model = first
  for (let i = 0; i < CHANGES; i++) {
    const number = (i * 37) % SERVICES
    const key = serviceKey(number)
    slices.set(key, [syntheticSlice(number, ENDPOINTS, 1)])
    const start = performance.now()
    model = updateDesired(model, { ...cluster, slices }, NODE, new Set([key]))
    const report = await dataplane.sync(model.desired, model.changed)
    times.push(performance.now() - start)
    assert.ok(report.written > 0 && report.failed.length === 0, `a change of ${key} was not written`)
  }
  return { median: percentile(times, 0.5), p99: percentile(times, 0.99) }
}

async function run(bpfRoot: string): Promise<ScaleReport> {
  const cluster = syntheticCluster(SERVICES, ENDPOINTS)
  const dataplane = new BpfDataplane({ objectFolder: OBJECT_FOLDER, bpfRoot })
  const times: number[] = []
  const lap = () => times.push(performance.now())
  try {
    lap()
    await dataplane.start()
    lap()
    const model = desiredState(cluster, NODE)
    lap()
    const delays = monitorEventLoopDelay({ resolution: 1 })
    delays.enable()
    const { failed } = await dataplane.sync(model.desired, undefined)
    lap()
    await new Promise(setImmediate)
    delays.disable()
    assert.deepEqual(failed, [])
    const resident = process.memoryUsage.rss() / 2 ** 20
    const [start = 0, loaded = 0, modelled = 0, synced = 0] = times
    return {
      load: loaded - start,
      model: modelled - loaded,
      sync: synced - modelled,
      block: delays.max / 1e6,
      resident,
      change: await changeEndpoints(dataplane, model),
    }
  } finally {
    await dataplane.stop('remove')
  }
}

const [bpfRoot] = process.argv.slice(2)
if (bpfRoot === undefined) throw new Error('usage: scale-child.ts FOLDER_OF_PINS')
console.log(JSON.stringify(await run(bpfRoot)))
