/** What kube-proxy has on a node, and how it is taken away: whatever mode it ran in, and whatever release it was. */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { removeServiceRules } from '../dataplane/iptables/removal.ts'
import { describeFailure, type RunCommand, runCommand } from '../dataplane/netfilter/command.ts'
import { removeIpvs } from '../dataplane/netfilter/ipvs.ts'

const COMMAND = 'kube-proxy'
/** Of its nftables mode, by the family that nft calls them by. */
const NFT_TABLES = ['ip kube-proxy', 'ip6 kube-proxy'] as const

/** The ids of its processes that run in this network namespace. */
export function kubeProxies(proc = '/proc'): number[] {
  const own = readlinkSync(join(proc, 'self/ns/net'))
  return readdirSync(proc)
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const isOne = readFileSync(join(proc, name, 'comm'), 'utf8').trim() === COMMAND
        return isOne && readlinkSync(join(proc, name, 'ns/net')) === own
      } catch {
        // It has ended meanwhile.
        return false
      }
    })
    .map(Number)
}

/**
 * Removes its rules, tables, sets, virtual servers and device, and names each. What netfilter translates goes on, the
 * connections are conntrack's; those through virtual servers end. Sysctls stay, as they do after its own clean-up. Throws
 * when something is there and cannot be removed.
 */
export async function removeKubeProxy(run: RunCommand = runCommand): Promise<string[]> {
  const removed = [...(await removeServiceRules({ whose: 'kube-proxys', run }))]
  for (const table of NFT_TABLES) {
    const words = table.split(' ')
    if ((await run(['nft', 'list', 'table', ...words])).code !== 0) continue
    const argv = ['nft', 'delete', 'table', ...words]
    const result = await run(argv)
    if (result.code !== 0) throw new Error(describeFailure(argv, result))
    removed.push(`nft table ${table}`)
  }
  // After the rules that look into its sets.
  removed.push(...(await removeIpvs()))
  return removed
}
