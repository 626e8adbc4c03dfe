/**
 * The API server that the source is measured against, with a large cluster in it. Started by source.ts, with the file to
 * write the kubeconfig to as its argument.
 */
import { ApiServer, RESOURCES, writeKubeconfig } from '../tools/apiserver/index.ts'
import { serviceObject, sliceObject } from './api-objects.ts'
import { FIRST_CHANGED_ADDRESS, microseconds } from './source-changes.ts'
import { addressOf, syntheticCluster, syntheticSlice } from './synthetic.ts'

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
  const server = await ApiServer.start()
  const cluster = syntheticCluster(SERVICES, ENDPOINTS)
  for (const service of cluster.services.values()) server.objects.put(serviceObject(service))
  for (const slices of cluster.slices.values())
    for (const slice of slices) server.objects.put(sliceObject(slice))
  server.objects.put({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'bench' },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }] },
  })
  // Encoded once before anybody asks: what is measured is the client.
  for (const resource of RESOURCES) {
    for (const object of server.objects.list(resource)) server.encoder.object(resource, object, 'protobuf')
  }
  writeKubeconfig(kubeconfig, {
    server: server.url,
    authority: server.authority.certificate,
    credentials: { token: 'token-1' },
  })
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

/** Moves the first endpoint of one service after the other, at a steady pace. */
function change(
  server: ApiServer,
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
  done: (atUs: readonly number[]) => void,
): void {
  const atUs: number[] = []
  const start = microseconds()
  const timer = setInterval(() => {
    const due = Math.min(((microseconds() - start) / 1e6) * perSecond, perSecond * seconds)
    while (atUs.length < due) {
      const slice = syntheticSlice((atUs.length * 37) % SERVICES, ENDPOINTS)
      const object = sliceObject(slice, addressOf(FIRST_CHANGED_ADDRESS + atUs.length))
      server.objects.put(object)
      // It is with the watch's connection now: what this process does besides is not the client's delay.
      atUs.push(microseconds())
    }
    if (atUs.length < perSecond * seconds) return
    clearInterval(timer)
    done(atUs)
  }, 1)
}

const [kubeconfig] = process.argv.slice(2)
if (kubeconfig === undefined) throw new Error('usage: source-server.ts KUBECONFIG')
await serve(kubeconfig)
