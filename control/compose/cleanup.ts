/** `sluice cleanup`: takes everything of ours out of this node, or everything of kube-proxy's. */

import type { CleanupOptions } from '../cli/options.ts'
import { Refusal } from '../config/refusal.ts'
import { removeServiceRules } from '../dataplane/iptables/removal.ts'
import { createLog } from '../log.ts'
import { checkPrivileges, removeMounts } from './host.ts'
import { kubeProxies, removeKubeProxy } from './kube-proxy.ts'
import { lockNode } from './lock.ts'
import { drainBpf, removeBpf } from './takeover.ts'

/**
 * Removes, in the order in which nothing is left half working: the programs from their hooks, the maps, the netfilter
 * rules, the mount. Whoever made them, and also after a crash. `drain`: hands the connections over to netfilter first.
 * `kubeProxy`: what kube-proxy left instead, in whatever mode it ran, and nothing of ours.
 *
 * @returns Each trace by a name that a person can look for; none when there was nothing.
 * @throws Refusal without the privileges, or while whoever made it runs: it would put everything back.
 */
export async function cleanUp({ bpfRoot, drain, kubeProxy }: CleanupOptions): Promise<string[]> {
  checkPrivileges()
  if (kubeProxy) return await cleanUpKubeProxy()
  await using _lock = await lockNode()
  const log = createLog({ format: 'text', verbosity: 0, write: (line) => process.stderr.write(line) })
  const removed = drain ? await drainBpf(bpfRoot, log) : await removeBpf(bpfRoot)
  removed.push(...(await removeServiceRules({ whose: 'ours' })))
  removed.push(...(await removeMounts()))
  return removed
}

async function cleanUpKubeProxy(): Promise<string[]> {
  const running = kubeProxies()
  if (running.length > 0) {
    throw new Refusal(
      `kube-proxy runs on this node (process ${running.join(', ')}) and would put everything back: remove it from the \
node first (docs/migration.md)`,
    )
  }
  return await removeKubeProxy()
}
