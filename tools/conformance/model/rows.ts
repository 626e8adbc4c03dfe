/** Rows of the kind *model*: objects in, lists out. */

import { isDeepStrictEqual } from 'node:util'
import { hostPort } from '../../../control/model/address.ts'
import { emptyModel, nodeFacts, updateDesired } from '../../../control/model/desired.ts'
import type { DesiredState, ServicePort } from '../../../control/model/types.ts'
import { nodeObjects } from '../objects.ts'
import type { ExpectedLists, ModelRow } from '../types.ts'
import { ModelCluster } from './cluster.ts'
import { type Fault, NO_FAULT } from './faults.ts'

/** What is not as the table has it, a line each. */
export function checkModelRow({ steps }: ModelRow, fault: Fault = NO_FAULT): readonly string[] {
  const failures: string[] = []
  const node = new ModelCluster('n1')
  let model = emptyModel
  steps.forEach(({ objects, lists, changed }, index) => {
    node.set([...nodeObjects(), ...objects])
    const { cluster } = node.store
    const facts = nodeFacts('n1', cluster.node, [])
    model = updateDesired(model, fault.before(cluster), facts, node.store.takeChanged())
    const found = listsOf(fault.after(model.desired, facts, cluster))
    const complain = (what: string) => failures.push(`step ${index + 1}: ${what}`)
    if (changed !== undefined && !isDeepStrictEqual([...model.changed].sort(), [...changed].sort())) {
      complain(
        `a sync writes ${[...model.changed].join(' and ') || 'nothing'}, not ${changed.join(' and ') || 'nothing'}`,
      )
    }
    if (lists !== undefined) compare(found, lists, complain)
  })
  return failures
}

function compare(
  found: ReadonlyMap<string, ExpectedLists>,
  expected: Readonly<Record<string, Partial<ExpectedLists>>>,
  complain: (what: string) => void,
): void {
  for (const key of found.keys()) if (expected[key] === undefined) complain(`there is ${key}`)
  for (const [key, fields] of Object.entries(expected)) {
    const port = found.get(key)
    if (port === undefined) {
      complain(`there is no ${key}`)
      continue
    }
    for (const [name, value] of Object.entries(fields)) {
      const actual = port[name as keyof ExpectedLists]
      if (!isDeepStrictEqual(actual, value)) {
        complain(`${name} of ${key} is ${JSON.stringify(actual)}, not ${JSON.stringify(value)}`)
      }
    }
  }
}

function listsOf({ services, healthChecks }: DesiredState): ReadonlyMap<string, ExpectedLists> {
  return new Map(
    [...services.values()].flat().map((port) => {
      const family = port.family === 'ipv6' ? ' v6' : ''
      return [
        `${port.namespace}/${port.name}:${port.portName}/${port.protocol}${family}`,
        portLists(port, healthChecks),
      ]
    }),
  )
}

function portLists(port: ServicePort, healthChecks: DesiredState['healthChecks']): ExpectedLists {
  const texts = (indexes: readonly number[]) =>
    indexes.flatMap((index) => {
      const backend = port.backends[index]
      return backend === undefined ? [] : [hostPort(backend.address, backend.port)]
    })
  return {
    cluster: texts(port.cluster),
    local: texts(port.local),
    frontends: port.frontends.map(({ kind, address, port: number }) =>
      address === undefined ? `${kind} ${number}` : `${kind} ${hostPort(address, number)}`,
    ),
    affinitySeconds: port.affinitySeconds,
    healthCheckNodePort: healthChecks.get(`${port.namespace}/${port.name}`)?.port ?? 0,
  }
}
