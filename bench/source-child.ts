/**
 * A fresh process with the control plane of a daemon, from the API's bytes to the model's output, without a kernel.
 * Started by source.ts as a bundle, as the daemon is; its argument is the kubeconfig.
 */
import { subscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { systemClock } from '../control/clock.ts'
import { keepHeapSmall, settleHeap } from '../control/heap.ts'
import { createLog } from '../control/log.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../control/model/desired.ts'
import { kubernetesSource } from '../control/source/kubernetes/kubernetes.ts'
import { Store } from '../control/source/store.ts'
import { SyncLoop } from '../control/sync/loop.ts'
import { FIRST_CHANGED_ADDRESS, microseconds } from './source-changes.ts'

/** How long it may settle before its memory is read. */
const SETTLE_MS = 3000

export type FromClient =
  /** Everything is there: seconds from the first byte, megabytes, milliseconds. */
  | {
      readonly kind: 'loaded'
      readonly seconds: number
      readonly residentMB: number
      readonly blockMs: number
    }
  /** When the model had each change, by its number, in microseconds of the machine's monotonic clock. */
  | { readonly kind: 'seen'; readonly atUs: readonly (number | undefined)[] }

async function run(kubeconfig: string): Promise<void> {
  keepHeapSmall()
  const seen: (number | undefined)[] = []
  const loaded = Promise.withResolvers<void>()
  const firstByte = Promise.withResolvers<number>()
  const delays = monitorEventLoopDelay({ resolution: 1 })
  subscribe('undici:request:headers', () => {
    firstByte.resolve(microseconds())
    // What the start itself takes, before anything comes, is another matter.
    delays.enable()
  })
  const store = new Store('bench', { changed: () => loop.request(), note: () => undefined })
  const loop: SyncLoop<Model> = new SyncLoop<Model>({
    inputs: store,
    model: { empty: emptyModel, update: updateDesired },
    node: () => nodeFacts('bench', store.cluster.node, []),
    dataplane: {
      sync: async (desired, changed) => {
        const nowUs = microseconds()
        for (const key of changed ?? []) {
          for (const { backends } of desired.services.get(key) ?? []) {
            for (const { address } of backends)
              if (address.startsWith('11.')) seen[changeOf(address)] ??= nowUs
          }
        }
        loaded.resolve()
        return { written: 0, deleted: 0, unchanged: 0, failed: [], durationMs: 0 }
      },
    },
    clock: systemClock,
    observer: {
      synced: () => undefined,
      failed: fail,
      problems: (appeared) => appeared.length > 0 && fail(appeared),
    },
  })
  const source = kubernetesSource({
    kubeconfig,
    nodeName: 'bench',
    clock: systemClock,
    log: createLog({ format: 'json', verbosity: 0, write: () => undefined }),
  })
  const { signal } = new AbortController()
  await source.start(store.attach(source.name), signal)
  void loop.run(signal)
  await loaded.promise
  settleHeap()
  const seconds = (microseconds() - (await firstByte.promise)) / 1e6
  // What blocked until now is counted when the loop turns again.
  await delay(50)
  delays.disable()
  await delay(SETTLE_MS)
  tell({ kind: 'loaded', seconds, residentMB: residentMB(), blockMs: delays.max / 1e6 })
  process.on('message', () => tell({ kind: 'seen', atUs: seen }))
}

function changeOf(address: string): number {
  const bits = address.split('.').reduce((value, byte) => value * 256 + Number(byte), 0)
  return bits - FIRST_CHANGED_ADDRESS
}

function residentMB(): number {
  return Number(/^VmRSS:\s*(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
}

function tell(message: FromClient): void {
  process.send?.(message)
}

function fail(what: unknown): never {
  console.error(what)
  process.exit(1)
}

const [kubeconfig] = process.argv.slice(2)
if (kubeconfig === undefined) throw new Error('usage: source-child KUBECONFIG')
process.on('disconnect', () => process.exit())
await run(kubeconfig)
