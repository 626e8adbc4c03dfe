/** `sluice services`: what the kernel balances, as text. Pure. */

import type { Choice } from '../model/types.ts'
import type { EndpointFact, FrontendFact, ServiceFact } from './facts.ts'
import { counted, endpointText, frontendText, jsonText, NONE, passes, serviceText } from './names.ts'
import type { OutputFormat, ServiceFilter } from './options.ts'
import { table } from './table.ts'

/** A table shows so many backends of a service and counts the rest; `sluice backends` and JSON have them all. */
const BACKENDS_SHOWN = 10

/** The services that a filter lets pass, in the order in which they come. */
export function servicesText(
  facts: Iterable<ServiceFact>,
  filter: ServiceFilter,
  output: OutputFormat,
): string {
  const services = [...facts].filter(({ service }) => passes(filter, service))
  return output === 'json' ? jsonText({ services: services.map(serviceJson) }) : servicesTable(services)
}

function servicesTable(services: readonly ServiceFact[]): string {
  const rows = services.map((fact) => [
    serviceText(fact.service),
    fact.service.protocol,
    fact.frontends.map(frontendText).join('\n') || NONE,
    fact.frontends.map(({ kind }) => kind).join('\n') || NONE,
    fact.frontends.map((frontend) => policyText(fact, frontend)).join('\n') || NONE,
    backendsText(fact),
    schedulerText(fact),
    Number(fact.connections),
    Number(fact.refused),
  ])
  const heads = [
    'SERVICE',
    'PROTOCOL',
    'FRONTEND',
    'KIND',
    'LIST',
    'BACKENDS',
    'SCHEDULER',
    'CONNECTIONS',
    'REFUSED',
  ]
  const frontends = services.reduce((sum, fact) => sum + fact.frontends.length, 0)
  const backends = services.reduce((sum, fact) => sum + allBackends(fact).length, 0)
  const total = [
    counted(services.length, 'service port'),
    counted(frontends, 'frontend'),
    counted(backends, 'backend'),
  ].join(', ')
  return `${services.length === 0 ? '' : `${table(heads, rows)}\n`}${total}\n`
}

/** The list that a frontend gives; both when a client's place decides: `cluster, external: local`. */
function policyText(fact: ServiceFact, { kind }: FrontendFact): string {
  const { internal, external } = fact.choices[kind]
  const inside = choiceText(fact, internal)
  const outside = choiceText(fact, external)
  const lists = inside === outside ? inside : `${inside}, external: ${outside}`
  return kind === 'LoadBalancer' ? `${lists}${rangesText(fact)}` : lists
}

/** Whom a load-balancer address is open to; JSON has the ranges. */
function rangesText({ sourceRanges }: ServiceFact): string {
  return sourceRanges === undefined ? '' : `, ${counted(sourceRanges.length, 'source range')}`
}

/** What an empty list means matters, and is printed, only when it is empty. */
function choiceText(fact: ServiceFact, { list, whenEmpty }: Choice): string {
  return fact.lists[list].length > 0 ? list : `${list}: ${whenEmpty}`
}

function backendsText(fact: ServiceFact): string {
  const backends = allBackends(fact)
  if (backends.length === 0) return NONE
  const local = new Set(fact.lists.local.map(endpointText))
  const lines = backends
    .slice(0, BACKENDS_SHOWN)
    .map((backend) => `${endpointText(backend)}${local.has(endpointText(backend)) ? ' local' : ''}`)
  const rest = backends.length - lines.length
  return [...lines, ...(rest > 0 ? [`and ${rest} more`] : [])].join('\n')
}

/** Of both lists, each once, in the order in which new connections get them. */
function allBackends({ lists }: ServiceFact): EndpointFact[] {
  const backends = [...lists.cluster, ...lists.local].map(
    (backend) => [endpointText(backend), backend] as const,
  )
  return [...new Map(backends).values()]
}

function schedulerText({ scheduler, affinitySeconds }: ServiceFact): string {
  return affinitySeconds === 0 ? scheduler : `${scheduler}\naffinity ${affinitySeconds} s`
}

/** The names of these fields are an interface: none changes or goes. */
function serviceJson(fact: ServiceFact): unknown {
  const { service, frontends, choices, lists } = fact
  return {
    ...service,
    id: fact.id,
    frontends: frontends.map(({ kind, address, port }) => ({
      kind,
      address: address ?? null,
      port,
      internal: choices[kind].internal,
      external: choices[kind].external,
    })),
    cluster: lists.cluster,
    local: lists.local,
    scheduler: fact.scheduler,
    affinitySeconds: fact.affinitySeconds,
    sourceRanges: fact.sourceRanges ?? null,
    nodeAllowed: fact.nodeAllowed,
    kernelSockets: fact.kernelSockets,
    connections: fact.connections,
    refused: fact.refused,
  }
}
