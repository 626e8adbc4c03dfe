/** Rules that use everything that the rules of services use: whether the kernel takes them is whether it can do it. */

import type { Iptables } from './iptables.ts'

/** A chain that is there for a moment, and that nothing jumps to. */
export const PROBE = 'SLUICE-PROBE'

const ADDRESSES = {
  ipv4: { address: '192.0.2.1', endpoint: '192.0.2.1:1' },
  ipv6: { address: '2001:db8::1', endpoint: '[2001:db8::1]:1' },
} as const

function probeText(family: keyof typeof ADDRESSES): string {
  const { address, endpoint } = ADDRESSES[family]
  return `*filter
:${PROBE} - [0:0]
-A ${PROBE} -m conntrack --ctstate NEW -m comment --comment "sluice: probe" -m mark --mark 0x1/0x1 -j ACCEPT
-A ${PROBE} -m addrtype --dst-type LOCAL -m tcp -p tcp -d ${address} --dport 1 -j REJECT
COMMIT
*nat
:${PROBE} - [0:0]
-A ${PROBE} -j MARK --or-mark 0x1
-A ${PROBE} -m statistic --mode random --probability 0.5000000000 -m udp -p udp -j DNAT --to-destination ${endpoint}
-A ${PROBE} -m recent --name ${PROBE} --set -m tcp -p tcp -j DNAT --to-destination ${endpoint}
-A ${PROBE} -j MASQUERADE
COMMIT
`
}

const REMOVAL = ['filter', 'nat']
  .map((table) => `*${table}\n:${PROBE} - [0:0]\n-X ${PROBE}\nCOMMIT\n`)
  .join('')

/** Writes such rules and removes them again. Throws IptablesError, which names what the kernel or iptables lacks. */
export async function probeRules(iptables: Iptables, family: keyof typeof ADDRESSES): Promise<void> {
  try {
    await iptables.restore(probeText(family))
  } finally {
    // Of two tables the first may have been written. What cannot be removed a clean-up will find.
    await iptables.restore(REMOVAL).catch(() => undefined)
  }
}
