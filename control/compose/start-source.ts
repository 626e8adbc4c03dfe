/** The source of objects, started, and the store that it fills. */

import { systemClock } from '../clock.ts'
import type { RunOptions } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import type { Logger } from '../log.ts'
import { filesSource } from '../source/files/files.ts'
import { Requests } from '../source/requests.ts'
import type { Freshness, Source } from '../source/source.ts'
import { Store } from '../source/store.ts'

export interface StartedSource {
  readonly store: Store
  /** Calls back after every change of the store from now on. */
  onChange(listener: () => void): void
  /** See `Source.freshness`. */
  freshness(): readonly Freshness[]
  /** What is asked of the API server, if there is one. */
  readonly requests: Requests
}

/** What to read, and for which node. */
export interface SourceChoice extends Pick<RunOptions, 'source' | 'nodeName'> {
  /** Also this node's pods and the namespaces, where that takes more than to read on: see `KubernetesOptions.pods`. */
  readonly pods?: 'awaited' | 'late' | undefined
}

/** Throws a `Refusal` when the source never can run; what can heal is logged later, as a problem of the store. */
export async function startSource(
  { source, nodeName, pods }: SourceChoice,
  log: Pick<Logger, 'info' | 'debug'>,
  signal: AbortSignal,
): Promise<StartedSource> {
  const listeners: (() => void)[] = []
  const store = new Store(
    nodeName,
    {
      changed: () => {
        for (const listener of listeners) listener()
      },
      note: (name, message) => log.debug(message, { source: name }),
    },
    { needsNode: source.kind === 'kubernetes' },
  )
  const requests = new Requests()
  const opened = await openSource({ source, nodeName, pods }, log, requests)
  try {
    await opened.start(store.attach(opened.name), signal)
  } catch (error) {
    throw new Refusal(error instanceof Error ? error.message : String(error), { cause: error })
  }
  return {
    store,
    onChange: (listener) => listeners.push(listener),
    freshness: () => opened.freshness(),
    requests,
  }
}

/** A source that has not been started. What a cluster needs is loaded only for one: it is the larger part of the memory. */
export async function openSource(
  { source, nodeName, pods }: SourceChoice,
  log: Pick<Logger, 'info' | 'debug'>,
  { made }: Pick<Requests, 'made'> = new Requests(),
): Promise<Source> {
  if (source.kind === 'files') return filesSource(source.folder)
  const { kubernetesSource } = await import('../source/kubernetes/kubernetes.ts')
  const { kubeconfig, apiServer } = source
  return kubernetesSource({ kubeconfig, apiServer, nodeName, pods, clock: systemClock, log, made })
}
