/** Events on the Node object and on Services, where the objects come from a cluster. */

import type { Clock } from '../clock.ts'
import type { RunOptions } from '../config/options.ts'
import type { Choice } from '../dataplane/choose.ts'
import type { Logger } from '../log.ts'
import type { HealthCheck } from '../model/types.ts'
import type { NodeEvent } from '../source/kubernetes/node-events.ts'
import type { StartedSource } from './start-source.ts'

/** Never throws, and waits for nothing. False where there is no room for it now. */
export type TellNode = (event: NodeEvent) => boolean

export interface NodeTeller {
  readonly tell: TellNode
  /** Resolves when nothing waits to be told. */
  idle(): Promise<void>
}

/** What a cluster needs is loaded only for one. */
export async function createNodeEvents(
  { source, nodeName }: Pick<RunOptions, 'source' | 'nodeName'>,
  about: {
    readonly log: Pick<Logger, 'debug' | 'info'>
    readonly clock: Clock
    readonly signal: AbortSignal
    readonly source: Pick<StartedSource, 'requests'>
  },
): Promise<NodeTeller> {
  if (source.kind === 'files') return { tell: () => true, idle: async () => undefined }
  const { nodeEvents } = await import('../source/kubernetes/node-events.ts')
  const { kubeconfig, apiServer } = source
  const events = nodeEvents(
    { kubeconfig, apiServer },
    { nodeName, ...about, made: about.source.requests.made },
  )
  return { tell: (event) => events.tell(event), idle: () => events.idle() }
}

/** As kube-proxy has it. */
export function startingEvent(version: string): NodeEvent {
  return { type: 'Normal', reason: 'Starting', action: 'StartSluice', note: version }
}

/** As kube-proxy has it: a health-check node port that cannot be had. */
export function healthCheckEvent({ namespace, name }: HealthCheck, note: string): NodeEvent {
  return {
    type: 'Warning',
    reason: 'FailedToStartServiceHealthcheck',
    action: 'Listen',
    note,
    service: { namespace, name },
  }
}

/** As kube-proxy has it: a server of the daemon itself whose port cannot be had. */
export function serverEvent(server: 'health' | 'metrics', note: string): NodeEvent {
  const reason = server === 'health' ? 'FailedToStartProxierHealthcheck' : 'FailedToStartMetricServer'
  return { type: 'Warning', reason, action: 'StartSluice', note }
}

/** A warning where eBPF was wanted and cannot be had. */
export function choiceEvent({ dataplane, reason, why }: Choice): NodeEvent {
  return {
    type: reason === 'fallback' ? 'Warning' : 'Normal',
    reason: 'DataplaneChosen',
    action: 'ChooseDataplane',
    note: `the dataplane is ${dataplane}: ${why}`,
  }
}
