/**
 * Which pods are served at their sockets. It is the fastest way to a service, but a process that must see where its
 * neighbours connect to, a mesh's, then sees backends instead of services: so it is for pods to say.
 */

import { parseAddress } from './address.ts'
import type { Namespace, Pod, Problem } from './types.ts'

/** Whose sockets are served: those of the node's own processes and of pods that ask for it; all but of pods that refuse. */
export const SOCKET_MODES = ['host', 'all'] as const
export type SocketMode = (typeof SOCKET_MODES)[number]

/**
 * The annotation of a Pod, and the label of a Namespace for the pods in it that say nothing: `true` or `false`. A label,
 * since namespaces are chosen by labels.
 */
export const SOCKET_ANNOTATION = 'sluice.dev/socket-load-balancing'

/** What pods and namespaces say. */
export interface PodSockets {
  /** Whether the sockets of the pod with this address are to be served; without those for which nobody says anything. */
  readonly choices: ReadonlyMap<string, boolean>
  readonly problems: readonly Problem[]
}

/** A pod's word beats its namespace's. Pods in the node's own network namespace have no say. */
export function podSockets(pods: Iterable<Pod>, namespaces: ReadonlyMap<string, Namespace>): PodSockets {
  const choices = new Map<string, boolean>()
  const problems = new Map<string, Problem>()
  const choiceOf = (
    object: string,
    part: 'annotations' | 'labels',
    said: Readonly<Record<string, string>>,
  ): boolean | undefined => {
    const text = said[SOCKET_ANNOTATION]
    if (text === undefined || text === 'true' || text === 'false')
      return text === undefined ? undefined : text === 'true'
    const field = `metadata.${part}[${SOCKET_ANNOTATION}]`
    problems.set(object, {
      object,
      field,
      message: `${JSON.stringify(text)} is not true or false: it says nothing`,
    })
    return undefined
  }
  for (const pod of pods) {
    if (pod.hostNetwork || pod.ended) continue
    const namespace = namespaces.get(pod.namespace)
    const choice =
      choiceOf(`Pod ${pod.namespace}/${pod.name}`, 'annotations', pod.annotations) ??
      (namespace === undefined
        ? undefined
        : choiceOf(`Namespace ${namespace.name}`, 'labels', namespace.labels))
    if (choice === undefined) continue
    for (const text of pod.addresses) {
      const address = parseAddress(text)
      if (address !== undefined) choices.set(address.text, choice)
    }
  }
  return { choices, problems: [...problems.values()] }
}
