/** `sluice cleanup`: takes everything of ours out of this node. */

import { existsSync, readdirSync, rmdirSync } from 'node:fs'
import { removeAttachments } from '../dataplane/bpf/device-hooks.ts'
import { removeNetfilter } from '../dataplane/bpf/netfilter.ts'
import { removeMapPins } from '../dataplane/bpf/pins.ts'
import { checkPrivileges, removeMounts } from './host.ts'
import { lockNode } from './lock.ts'

/**
 * Removes, in the order in which nothing is left half working: the programs from their hooks, the maps, the netfilter
 * rules, the mount. Whoever made them, and also after a crash.
 *
 * @returns Each trace by a name that a person can look for; none when there was nothing.
 * @throws Refusal without the privileges, or while a daemon runs: it would put everything back.
 */
export async function cleanUp(bpfRoot: string): Promise<string[]> {
  checkPrivileges()
  await using _lock = await lockNode()
  const removed = await removeAttachments(bpfRoot)
  removed.push(...removeMapPins(bpfRoot).map((path) => `map ${path}`))
  if (existsSync(bpfRoot) && readdirSync(bpfRoot).length === 0) {
    rmdirSync(bpfRoot)
    removed.push(`folder ${bpfRoot}`)
  }
  removed.push(...(await removeNetfilter()).removed)
  removed.push(...(await removeMounts()))
  return removed
}
