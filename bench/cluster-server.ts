/** An API server of the tests' own with a synthetic cluster in it, as the measurements of clients need it. */
import { ApiServer, RESOURCES, writeKubeconfig } from '../tools/apiserver/index.ts'
import { serviceObject, sliceObject } from './api-objects.ts'
import { microseconds } from './source-changes.ts'
import { syntheticCluster } from './synthetic.ts'

/**
 * Starts a server of a cluster and writes the kubeconfig to it. Every object has been encoded before anybody asks: what is
 * measured is the client.
 */
export async function serveCluster(
  kubeconfig: string,
  { services, endpoints }: { readonly services: number; readonly endpoints: number },
): Promise<ApiServer> {
  const server = await ApiServer.start()
  const cluster = syntheticCluster(services, endpoints)
  for (const service of cluster.services.values()) server.objects.put(serviceObject(service))
  for (const slices of cluster.slices.values())
    for (const slice of slices) server.objects.put(sliceObject(slice))
  server.objects.put({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'bench' },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }] },
  })
  for (const resource of RESOURCES) {
    for (const object of server.objects.list(resource)) server.encoder.object(resource, object, 'protobuf')
  }
  writeKubeconfig(kubeconfig, {
    server: server.url,
    authority: server.authority.certificate,
    credentials: { token: 'token-1' },
  })
  return server
}

/** Makes changes at a steady pace: what was missed is made up for. @param make gets the number of the change, from 0 on */
export function changeSteadily(
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
  make: (change: number) => void,
  done: () => void,
): void {
  const start = microseconds()
  const all = perSecond * seconds
  let made = 0
  const timer = setInterval(() => {
    const due = Math.min(((microseconds() - start) / 1e6) * perSecond, all)
    while (made < due) make(made++)
    if (made < all) return
    clearInterval(timer)
    done()
  }, 1)
}
