/**
 * A fresh process that goes through the stages of a daemon's start one after the other, and says what is alive in its
 * memory after each. Started by memory.ts as a bundle, as the daemon is, with `--expose-gc`; its arguments are the
 * kubeconfig, the folder of the compiled objects, and that of the pins.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { systemClock } from '../../control/clock.ts'
import { BpfDataplane } from '../../control/dataplane/bpf/dataplane.ts'
import { keepHeapSmall, settleHeap } from '../../control/heap.ts'
import { createLog } from '../../control/log.ts'
import { desiredState, nodeFacts } from '../../control/model/desired.ts'
import { kubernetesSource } from '../../control/source/kubernetes/kubernetes.ts'
import { Store } from '../../control/source/store.ts'
import type { MemoryReport, MemoryStage } from './memory.ts'

const SETTLE_MS = 3000

/** Megabytes: what is alive in the heap and outside of it, and what the process takes for that. */
function look(name: MemoryStage['name']): MemoryStage {
  // A second one frees what finalizers of the first let go.
  for (let i = 0; i < 2; i++) globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return { name, heapMB: heapUsed / 2 ** 20, outsideMB: external / 2 ** 20, residentMB: residentMB() }
}

function residentMB(): number {
  return Number(/^VmRSS:\s*(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
}

async function run(kubeconfig: string, objectFolder: string, bpfRoot: string): Promise<MemoryReport> {
  keepHeapSmall()
  const stages = [look('program')]
  const dataplane = new BpfDataplane({ objectFolder, bpfRoot })
  await dataplane.start()
  stages.push(look('maps'))
  try {
    const listed = Promise.withResolvers<void>()
    const changed = () => store.synced && listed.resolve()
    const store: Store = new Store('bench', { changed, note: () => undefined }, { needsNode: true })
    const log = createLog({ format: 'json', verbosity: 0, write: () => undefined })
    const source = kubernetesSource({ kubeconfig, nodeName: 'bench', clock: systemClock, log })
    await source.start(store.attach(source.name), new AbortController().signal)
    await listed.promise
    stages.push(look('store'))
    const model = desiredState(store.cluster, nodeFacts('bench', store.cluster.node, []))
    stages.push(look('desired state'))
    const { failed } = await dataplane.sync(model.desired, undefined)
    assert.deepEqual(failed, [])
    stages.push(look('shadow'))
    settleHeap()
    await delay(SETTLE_MS)
    const settledMB = residentMB()
    // Alive until here, whatever an optimizing compiler thinks.
    assert.ok(model.desired.services.size === store.cluster.services.size)
    return { stages, settledMB }
  } finally {
    await dataplane.stop('remove')
  }
}

const [kubeconfig, objectFolder, bpfRoot] = process.argv.slice(2)
if (kubeconfig === undefined || objectFolder === undefined || bpfRoot === undefined) {
  throw new Error('usage: memory-child KUBECONFIG OBJECTS PINS')
}
console.log(JSON.stringify(await run(kubeconfig, objectFolder, bpfRoot)))
process.exit()
