/** What `services`, `backends` and `flows` read: the pinned maps. */

import { Refusal } from '../config/refusal.ts'
import { type Inspector, NothingPinnedError, openInspector } from '../dataplane/bpf/inspect.ts'

/** Throws a `Refusal` when nothing is pinned there. */
export function openFacts(bpfRoot: string): Inspector {
  try {
    return openInspector(bpfRoot)
  } catch (error) {
    if (!(error instanceof NothingPinnedError)) throw error
    const doubt = process.geteuid?.() === 0 ? '' : ' (or only root may see it)'
    throw new Refusal(`${error.message}${doubt}`, { cause: error })
  }
}
