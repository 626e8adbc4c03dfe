/** One daemon a node, and no clean-up under its feet. */

import { Refusal } from '../config/refusal.ts'
import { acquireNodeLock, type NodeLock, NodeLockedError } from '../node/lock.ts'

/** Takes the node's lock. Throws a `Refusal` that names the process that has it. */
export async function lockNode(): Promise<NodeLock> {
  try {
    return await acquireNodeLock()
  } catch (error) {
    if (error instanceof NodeLockedError) throw new Refusal(error.message, { cause: error })
    throw error
  }
}
