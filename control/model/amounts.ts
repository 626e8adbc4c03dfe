/** How much a desired state is, as metrics tell it. */

import type { DesiredState, Family, ServicePort } from './types.ts'

export interface Amounts {
  readonly backends: Readonly<Record<Family, number>>
  /** Service ports whose traffic policy keeps a class of clients from the endpoints that there are: none is local. */
  readonly withoutLocal: Readonly<Record<'internal' | 'external', Readonly<Record<Family, number>>>>
}

export function amountsOf({ services }: Pick<DesiredState, 'services'>): Amounts {
  const none = () => ({ ipv4: 0, ipv6: 0 })
  const backends = none()
  const withoutLocal = { internal: none(), external: none() }
  for (const ports of services.values()) {
    for (const port of ports) {
      backends[port.family] += port.backends.length
      if (isKeptFrom(port, 'internal')) withoutLocal.internal[port.family] += 1
      if (isKeptFrom(port, 'external')) withoutLocal.external[port.family] += 1
    }
  }
  return { backends, withoutLocal }
}

/** Internal is what asks the ClusterIP, external what asks any other frontend, as `internalTrafficPolicy` and its like. */
function isKeptFrom({ choices, local }: ServicePort, policy: 'internal' | 'external'): boolean {
  const choice = policy === 'internal' ? choices.ClusterIP.internal : choices.NodePort.external
  return choice.list === 'local' && choice.whenEmpty === 'drop' && local.length === 0
}
