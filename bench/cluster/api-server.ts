/** The API server of this measurement. Its arguments: the file for the kubeconfig, services, endpoints of each. */
import type { ApiServer } from '../../tools/apiserver/index.ts'
import { sliceObject } from '../api-objects.ts'
import { changeSteadily, serveCluster } from '../cluster-server.ts'
import { microseconds } from '../source-changes.ts'
import { addressOf, syntheticSlice } from '../synthetic.ts'
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
  const server = await serveCluster(kubeconfig, size)
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
  const make = (change: number): void => {
    if (change % probedEach === 0) {
      const first = FIRST_PROBED_ADDRESS + probedUs.length * PROBED_STRIDE
      probedUs.push(microseconds())
      server.objects.put(sliceObject(movedSlice(endpoints, first)))
    } else {
      const slice = syntheticSlice(PROBED + 1 + ((change * 37) % (services - PROBED - 1)), endpoints)
      server.objects.put(sliceObject(slice, addressOf(FIRST_OTHER_ADDRESS + change)))
    }
  }
  changeSteadily({ perSecond, seconds }, make, () => done(probedUs))
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
