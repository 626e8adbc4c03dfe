/** `sluice flows`: the connections that the kernel translates, as text. Pure. */

import { familyOf } from '../model/address.ts'
import type { FlowFact } from './facts.ts'
import { counted, endpointText, jsonText, NONE, passes, serviceText } from './names.ts'
import type { FlowOptions } from './options.ts'
import { table } from './table.ts'

const HEADS = ['PROTOCOL', 'CLIENT', 'FRONTEND', 'BACKEND', 'SERVICE', 'STATE', 'IDLE', 'NOTES']

/** The flows that the filters let pass, in the order of the map, which is none. */
export function flowsText(
  facts: Iterable<FlowFact>,
  filter: Pick<FlowOptions, 'service' | 'protocol' | 'family' | 'state' | 'client' | 'output'>,
): string {
  const flows = [...facts].filter((flow) => isWanted(flow, filter))
  if (filter.output === 'json') return jsonText({ flows: flows.map(flowJson) })
  const rows = flows.map((flow) => [
    flow.protocol,
    endpointText(flow.client),
    endpointText(flow.frontend),
    endpointText(flow.backend),
    serviceText(flow.service),
    flow.state,
    `${flow.idleSeconds} s`,
    notes(flow).join(', ') || NONE,
  ])
  const total = counted(flows.length, 'flow')
  return `${flows.length === 0 ? '' : `${table(HEADS, rows)}\n`}${total}\n`
}

function isWanted(
  flow: FlowFact,
  filter: Pick<FlowOptions, 'service' | 'protocol' | 'family' | 'state' | 'client'>,
): boolean {
  const { service, protocol, family, state, client } = filter
  if (family !== undefined && familyOf(flow.client.address) !== family) return false
  if (protocol !== undefined && flow.protocol !== protocol) return false
  if (state !== undefined && flow.state !== state) return false
  if (client !== undefined && flow.client.address !== client) return false
  return service === undefined || passes({ service, protocol: undefined, family: undefined }, flow.service)
}

/** What is out of the ordinary. */
function notes(flow: FlowFact): string[] {
  return [
    ...(flow.confirmed ? [] : ['unconfirmed']),
    ...(flow.external ? ['external client'] : []),
    ...(flow.masquerade ? ['masqueraded'] : []),
    ...(flow.hairpin ? ['to itself'] : []),
    ...(endpointText(flow.source) === endpointText(flow.client)
      ? []
      : [`source ${endpointText(flow.source)}`]),
  ]
}

/** The names of these fields are an interface: none changes or goes. */
function flowJson(flow: FlowFact): unknown {
  return {
    protocol: flow.protocol,
    family: familyOf(flow.client.address),
    client: flow.client,
    frontend: flow.frontend,
    backend: flow.backend,
    source: flow.source,
    namespace: flow.service?.namespace ?? null,
    name: flow.service?.name ?? null,
    portName: flow.service?.portName ?? null,
    state: flow.state,
    confirmed: flow.confirmed,
    external: flow.external,
    masquerade: flow.masquerade,
    hairpin: flow.hairpin,
    idleSeconds: flow.idleSeconds,
  }
}
