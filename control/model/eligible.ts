/** Whether load balancers should send to this node at all (KEP-3836). */

import type { Node } from './types.ts'

/** The cluster autoscaler's word that it is about to take a node away. */
const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler'

/**
 * False for a node that is about to go: it is being deleted, or the cluster autoscaler has marked it. A cordon says
 * nothing of the kind.
 *
 * @param needsNode whether a node without an object is none of the cluster's any more
 */
export function isEligible(node: Node | undefined, needsNode: boolean): boolean {
  if (node === undefined) return !needsNode
  return !node.isBeingDeleted && !node.taints.includes(TO_BE_DELETED)
}
