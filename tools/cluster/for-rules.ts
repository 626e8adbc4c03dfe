/** What rules of iptables need of a node. */

import type { Cluster } from './cluster.ts'
import { hostDevice } from './script.ts'
import { NODE_NAMES, POD_NAMES, PODS } from './topology.ts'

/**
 * Frames that stay on a bridge pass the rules (`br_netfilter`, where the kernel has it), and a bridge sends them back to the
 * port they came from where a pod is balanced onto itself: a CNI that goes with such rules sees to both. And refusals are
 * ICMP errors, of which a kernel sends few at a stretch: here all that tests ask for.
 */
export async function prepareForRules(cluster: Cluster): Promise<void> {
  for (const name of NODE_NAMES) {
    const ports = POD_NAMES.map((pod) => PODS[pod]).filter(
      ({ node, attachment }) => node === name && attachment === 'bridge',
    )
    const commands = [
      'sysctl -q -w net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0',
      'for name in iptables ip6tables; do',
      '  file=/proc/sys/net/bridge/bridge-nf-call-$name; if [ -e $file ]; then echo 1 > $file; fi',
      'done',
      ...ports.map((pod) => `bridge link set dev ${hostDevice(pod)} hairpin on`),
    ]
    await cluster.node(name).exec(['sh', '-ec', commands.join('\n')])
  }
}
