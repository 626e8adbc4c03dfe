/**
 * The API server that the source is measured against, with a large cluster in it. Started by source.ts, with the file to
 * write the kubeconfig to as its argument.
 */
import type { ApiServer } from '../tools/apiserver/index.ts'
import { sliceObject } from './api-objects.ts'
import { changeSteadily, serveCluster } from './cluster-server.ts'
import { FIRST_CHANGED_ADDRESS, microseconds } from './source-changes.ts'
import { addressOf, syntheticSlice } from './synthetic.ts'

const SERVICES = 10_000
const ENDPOINTS = 10

export type ToServer =
  | { readonly kind: 'streaming lists'; readonly served: boolean }
  | { readonly kind: 'change'; readonly perSecond: number; readonly seconds: number }

export type FromServer =
  | { readonly kind: 'listening' }
  /** When each change was written, by its number, in microseconds of the machine's monotonic clock. */
  | { readonly kind: 'changed'; readonly atUs: readonly number[] }

async function serve(kubeconfig: string): Promise<void> {
  const server = await serveCluster(kubeconfig, { services: SERVICES, endpoints: ENDPOINTS })
  const tell = (message: FromServer): void => {
    process.send?.(message)
  }
  process.on('message', (message: ToServer) => {
    if (message.kind === 'streaming lists')
      server.behaviour.streamingLists = message.served ? 'served' : 'invalid'
    else change(server, message, (atUs) => tell({ kind: 'changed', atUs }))
  })
  process.on('disconnect', () => process.exit())
  tell({ kind: 'listening' })
}

/** Moves the first endpoint of one service after the other. */
function change(
  server: ApiServer,
  pace: { readonly perSecond: number; readonly seconds: number },
  done: (atUs: readonly number[]) => void,
): void {
  const atUs: number[] = []
  const make = (change: number): void => {
    const slice = syntheticSlice((change * 37) % SERVICES, ENDPOINTS)
    server.objects.put(sliceObject(slice, addressOf(FIRST_CHANGED_ADDRESS + change)))
    // It is with the watch's connection now: what this process does besides is not the client's delay.
    atUs.push(microseconds())
  }
  changeSteadily(pace, make, () => done(atUs))
}

const [kubeconfig] = process.argv.slice(2)
if (kubeconfig === undefined) throw new Error('usage: source-server.ts KUBECONFIG')
await serve(kubeconfig)
