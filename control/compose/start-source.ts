/** The source of objects, started, and the store that it fills. */

import type { RunOptions } from '../cli/options.ts'
import { Refusal } from '../cli/refusal.ts'
import type { Logger } from '../log.ts'
import { filesSource } from '../source/files/files.ts'
import { Store } from '../source/store.ts'

export interface StartedSource {
  readonly store: Store
  /** Calls back after every change of the store from now on. */
  onChange(listener: () => void): void
}

/** Throws a `Refusal` when the source never can run; what can heal is logged later, as a problem of the store. */
export async function startSource(
  { source, nodeName }: Pick<RunOptions, 'source' | 'nodeName'>,
  log: Pick<Logger, 'debug'>,
  signal: AbortSignal,
): Promise<StartedSource> {
  const listeners: (() => void)[] = []
  const store = new Store(nodeName, {
    changed: () => {
      for (const listener of listeners) listener()
    },
    note: (name, message) => log.debug(message, { source: name }),
  })
  const files = filesSource(source.folder)
  try {
    await files.start(store.attach(files.name), signal)
  } catch (error) {
    throw new Refusal(error instanceof Error ? error.message : String(error), { cause: error })
  }
  return { store, onChange: (listener) => listeners.push(listener) }
}
