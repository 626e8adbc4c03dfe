/** A cluster that changes at random, step by step, for tests of partial updates. */

import fc from 'fast-check'
import { emptyModel, type Model, updateDesired } from '../../model/desired.ts'
import { makeCluster, makeEndpoint, makePort, makeService, makeSlice } from '../../model/fixtures.ts'
import type { EndpointSlice, Service } from '../../model/types.ts'
import { RuleRenderer } from './rules.ts'
import { FIRST, kubeProxyNode, SETTINGS } from './test-kit.ts'

/** What becomes of one service. */
export interface Step {
  /** 0 to 3. */
  readonly which: number
  /** Undefined: it is deleted. */
  readonly service: Partial<Service> | undefined
  readonly endpoints: readonly EndpointState[]
}

type EndpointState = 'absent' | 'here' | 'away' | 'terminating' | 'unready'

const policy = fc.constantFrom('Cluster', 'Local')

const service: fc.Arbitrary<Partial<Service>> = fc.record({
  type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer'),
  sessionAffinity: fc.constantFrom('None', 'ClientIP'),
  internalTrafficPolicy: policy,
  externalTrafficPolicy: policy,
  loadBalancerSourceRanges: fc.constantFrom([], ['198.51.100.0/24']),
})

/** Up to a dozen of them. */
export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    which: fc.nat(3),
    service: fc.option(service, { nil: undefined }),
    endpoints: fc.array(fc.constantFrom<EndpointState>('absent', 'here', 'away', 'terminating', 'unready'), {
      maxLength: 3,
    }),
  }),
  { minLength: 1, maxLength: 12 },
)

/** The texts that bring a kernel without rules to the end of the steps: one for each, and all at once. */
export function renderings(all: readonly Step[]): { readonly partial: string[]; readonly full: string } {
  const services = new Map<number, { readonly service: Service; readonly slice: EndpointSlice }>()
  const renderer = new RuleRenderer(SETTINGS)
  let model: Model = emptyModel
  const partial = all.map((step, i) => {
    if (step.service === undefined) services.delete(step.which)
    else services.set(step.which, objectsOf(step.which, step.service, step.endpoints))
    const objects = [...services.values()]
    const cluster = makeCluster(
      objects.map((object) => object.service),
      objects.map(({ slice }) => slice),
    )
    const before = model.desired
    model = updateDesired(model, cluster, kubeProxyNode(), new Set([`default/s${step.which}`]))
    return renderer.render({
      ...FIRST,
      desired: model.desired,
      base: i === 0 ? FIRST.base : { ...FIRST, desired: before, changed: model.changed },
    }).text
  })
  return { partial, full: new RuleRenderer(SETTINGS).render({ ...FIRST, desired: model.desired }).text }
}

function objectsOf(which: number, fields: Partial<Service>, states: readonly EndpointState[]) {
  const name = `s${which}`
  const isOutside = fields.type !== 'ClusterIP'
  return {
    service: makeService({
      name,
      clusterIPs: [`10.96.0.${which + 1}`],
      ports: [makePort({ nodePort: isOutside ? 30_000 + which : 0 })],
      loadBalancerIngress:
        fields.type === 'LoadBalancer' ? [{ ip: `203.0.113.${which + 1}`, ipMode: 'VIP' }] : [],
      healthCheckNodePort: 32_000 + which,
      ...fields,
    }),
    slice: makeSlice(
      states.flatMap((state, i) =>
        state === 'absent' ? [] : [endpointOf(state, `10.244.${which}.${i + 1}`)],
      ),
      { name: `${name}-a`, serviceName: name },
    ),
  }
}

function endpointOf(state: EndpointState, address: string) {
  return makeEndpoint(address, {
    nodeName: state === 'here' ? 'n1' : 'n2',
    ready: state !== 'terminating' && state !== 'unready',
    serving: state !== 'unready',
    terminating: state === 'terminating',
  })
}
