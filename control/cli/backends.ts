/** `sluice backends`: every backend in the kernel, as text. Pure. */

import { familyOf } from '../model/address.ts'
import type { BackendFact } from './facts.ts'
import { counted, endpointText, jsonText, NONE, passes, serviceText } from './names.ts'
import type { BackendOptions } from './options.ts'
import { table } from './table.ts'

const HEADS = [
  'SERVICE',
  'PROTOCOL',
  'BACKEND',
  'STATE',
  'LISTS',
  'PLACE',
  'WEIGHT',
  'CONNECTIONS',
  'ID',
  'GENERATION',
]

/** The backends that the filters let pass, in the order in which they come. */
export function backendsText(
  facts: Iterable<BackendFact>,
  filter: Pick<BackendOptions, 'service' | 'protocol' | 'family' | 'state' | 'output'>,
): string {
  const backends = [...facts]
    .filter((fact) => isWanted(fact, filter))
    .filter(({ state }) => filter.state === undefined || filter.state === state)
  if (filter.output === 'json') return jsonText({ backends: backends.map(backendJson) })
  const rows = backends.map((fact) => [
    serviceText(fact.service),
    fact.service?.protocol ?? NONE,
    endpointText(fact),
    fact.state,
    fact.lists.join(', ') || NONE,
    fact.onNode ? 'this node' : 'elsewhere',
    fact.weight,
    fact.connections,
    fact.id,
    fact.generation,
  ])
  const total = counted(backends.length, 'backend')
  return `${backends.length === 0 ? '' : `${table(HEADS, rows)}\n`}${total}\n`
}

/** The family is that of its address: it has one also when its service is gone. */
function isWanted(
  fact: BackendFact,
  { service, protocol, family }: Pick<BackendOptions, 'service' | 'protocol' | 'family'>,
): boolean {
  if (family !== undefined && family !== familyOf(fact.address)) return false
  return passes({ service, protocol, family: undefined }, fact.service)
}

/** The names of these fields are an interface: none changes or goes. */
function backendJson(fact: BackendFact): unknown {
  return {
    namespace: fact.service?.namespace ?? null,
    name: fact.service?.name ?? null,
    portName: fact.service?.portName ?? null,
    protocol: fact.service?.protocol ?? null,
    family: familyOf(fact.address),
    id: fact.id,
    address: fact.address,
    port: fact.port,
    state: fact.state,
    lists: fact.lists,
    onNode: fact.onNode,
    weight: fact.weight,
    connections: fact.connections,
    generation: fact.generation,
  }
}
