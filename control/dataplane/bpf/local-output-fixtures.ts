/** Service ports for tests that netfilter translates at OUTPUT, of protocol SCTP unless told otherwise. */

import type { Backend, Choice, FrontendKind, ServicePort } from '../../model/types.ts'

const CHOICE: Choice = { list: 'cluster', whenEmpty: 'reject', masquerade: 'never' }

/** An endpoint on another node. */
export function backend(address: string, port: number): Backend {
  return { address, port, onNode: false, weight: 1 }
}

/** `default/web` in IPv4, all its backends in the list `cluster`, which everybody gets. */
export function outputPort(
  fields: Partial<Omit<ServicePort, 'choices'>>,
  choices: Partial<Record<FrontendKind, Choice>> = {},
): ServicePort {
  const of = (kind: FrontendKind) => ({
    internal: choices[kind] ?? CHOICE,
    // Another than internal clients get, so that a mistake shows.
    external: { list: 'local', whenEmpty: 'drop', masquerade: 'always' } as const,
  })
  return {
    namespace: 'default',
    name: 'web',
    portName: '',
    protocol: 'SCTP',
    family: 'ipv4',
    clusterIP: '10.96.0.1',
    frontends: [],
    backends: [],
    cluster: fields.backends?.map((_, i) => i) ?? [],
    local: [],
    choices: {
      ClusterIP: of('ClusterIP'),
      NodePort: of('NodePort'),
      LoadBalancer: of('LoadBalancer'),
      ExternalIP: of('ExternalIP'),
    },
    affinitySeconds: 0,
    sourceRanges: undefined,
    nodeAllowed: true,
    scheduler: 'random',
    kernelSockets: fields.protocol !== undefined && fields.protocol !== 'SCTP',
    ...fields,
  }
}
