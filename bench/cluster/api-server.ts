/** The API server of this measurement. Its arguments: the file for the kubeconfig, services, endpoints of each. */
import { ApiServer, RESOURCES, writeKubeconfig } from '../../tools/apiserver/index.ts'
import { serviceObject, sliceObject } from '../api-objects.ts'
import { microseconds } from '../source-changes.ts'
import { addressOf, syntheticCluster, syntheticSlice } from '../synthetic.ts'
import {
  type ClusterSize,
  FIRST_OTHER_ADDRESS,
  FIRST_PROBED_ADDRESS,
  type FromApi,
  PROBED,
  PROBED_STRIDE,
  type ToApi,
} from './protocol.ts'

async function serve(kubeconfig: string, size: ClusterSize): Promise<void> {
  const server = await ApiServer.start()
  const cluster = syntheticCluster(size.services, size.endpoints)
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
  const tell = (message: FromApi): void => {
    process.send?.(message)
  }
  process.on('message', (message: ToApi) => {
    change(server, size, message, (probedUs) => tell({ kind: 'changed', probedUs }))
  })
  process.on('disconnect', () => process.exit())
  tell({ kind: 'listening' })
}

function change(
  server: ApiServer,
  { services, endpoints }: ClusterSize,
  { perSecond, seconds, probedEach }: ToApi,
  done: (probedUs: readonly number[]) => void,
): void {
  const probedUs: number[] = []
  const start = microseconds()
  let made = 0
  const timer = setInterval(() => {
    const due = Math.min(((microseconds() - start) / 1e6) * perSecond, perSecond * seconds)
    for (; made < due; made++) {
      if (made % probedEach === 0) {
        const first = FIRST_PROBED_ADDRESS + probedUs.length * PROBED_STRIDE
        probedUs.push(microseconds())
        server.objects.put(sliceObject(movedSlice(endpoints, first)))
      } else {
        const slice = syntheticSlice(PROBED + 1 + ((made * 37) % (services - PROBED - 1)), endpoints)
        server.objects.put(sliceObject(slice, addressOf(FIRST_OTHER_ADDRESS + made)))
      }
    }
    if (made < perSecond * seconds) return
    clearInterval(timer)
    done(probedUs)
  }, 1)
}

/** The slice of the probed service with all its endpoints elsewhere: every new connection tells which version it met. */
function movedSlice(endpoints: number, first: number) {
  const slice = syntheticSlice(PROBED, endpoints)
  return {
    ...slice,
    endpoints: slice.endpoints.map((endpoint, i) => ({ ...endpoint, address: addressOf(first + i) })),
  }
}

const [kubeconfig, services, endpoints] = process.argv.slice(2)
if (kubeconfig === undefined) throw new Error('usage: api-server.ts KUBECONFIG SERVICES ENDPOINTS')
await serve(kubeconfig, { services: Number(services), endpoints: Number(endpoints) })
