/** What should come of the objects that a server holds, without asking it: by another reader, all at once. */

import { desiredState, nodeFacts } from '../../control/model/desired.ts'
import type { DesiredState } from '../../control/model/types.ts'
import { readObjects } from '../../control/source/files/objects.ts'
import { Store } from '../../control/source/store.ts'
import { type ApiObject, isJsonObject } from '../apiserver/kinds.ts'

/** The desired state of a node for these objects. Those that a service proxy does not select are left out. */
export function expectedState(objects: readonly ApiObject[], nodeName: string): DesiredState {
  const store = new Store(nodeName, { changed: () => undefined, note: () => undefined })
  const source = store.attach('expected')
  const items = objects.filter(isSelected)
  source.apply(readObjects({ apiVersion: 'v1', kind: 'List', items }).found)
  return desiredState(store.cluster, nodeFacts(nodeName, store.cluster.node, [])).desired
}

function isSelected({ kind, metadata, ...fields }: ApiObject): boolean {
  const labels = isJsonObject(metadata['labels']) ? metadata['labels'] : {}
  if (kind === 'EndpointSlice') return !('service.kubernetes.io/headless' in labels)
  const spec = isJsonObject(fields['spec']) ? fields['spec'] : {}
  return (
    kind !== 'Service' ||
    (!('service.kubernetes.io/service-proxy-name' in labels) && spec['clusterIP'] !== 'None')
  )
}
