/** The chains that are there whatever services there are. */

import type { NodePortAddresses, RuleSettings } from './rule-settings.ts'
import { comment, hexMark } from './rule-text.ts'

/** Lines of each table; `chains` in the order of their lines. */
export interface FixedRules {
  readonly filter: { readonly chains: readonly string[]; readonly rules: readonly string[] }
  readonly nat: { readonly chains: readonly string[]; readonly rules: readonly string[] }
  /** The end of KUBE-SERVICES in table nat. */
  readonly tail: readonly string[]
}

export function fixedRules(settings: RuleSettings, nodePortAddresses: NodePortAddresses): FixedRules {
  const guardsLoopback = settings.family === 'ipv4' && settings.localhostNodePorts
  return {
    filter: {
      chains: [
        'KUBE-SERVICES',
        'KUBE-EXTERNAL-SERVICES',
        'KUBE-FORWARD',
        'KUBE-NODEPORTS',
        'KUBE-PROXY-FIREWALL',
        // The kubelet's otherwise, and then not ours to write.
        ...(guardsLoopback ? ['KUBE-FIREWALL'] : []),
      ],
      rules: [...(guardsLoopback ? [LOOPBACK_GUARD] : []), ...forwardRules(settings)],
    },
    nat: {
      chains: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'],
      rules: masqueradeRules(settings),
    },
    tail: nodePortTail(settings, nodePortAddresses),
  }
}

/**
 * With `route_localnet`, without which node ports cannot answer at 127.0.0.1, a neighbour could send to the loopback
 * addresses of the node: only what conntrack has translated to them, or from them, may.
 */
const LOOPBACK_GUARD =
  `-A KUBE-FIREWALL ${comment('block incoming localnet connections')} -d 127.0.0.0/8 ! -s 127.0.0.0/8 ` +
  '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'

function forwardRules({ masqueradeMark, dropInvalid, counters }: RuleSettings): readonly string[] {
  const mark = `${hexMark(masqueradeMark)}/${hexMark(masqueradeMark)}`
  const counter = 'ct_state_invalid_dropped_pkts'
  const counted = counters.has(counter) ? ` -m nfacct --nfacct-name ${counter}` : ''
  const forwarding = comment('kubernetes forwarding rules')
  const known = comment('kubernetes forwarding conntrack rule')
  return [
    // What conntrack does not know it does not translate back: the client would reset its connection.
    ...(dropInvalid ? [`-A KUBE-FORWARD -m conntrack --ctstate INVALID${counted} -j DROP`] : []),
    `-A KUBE-FORWARD ${forwarding} -m mark --mark ${mark} -j ACCEPT`,
    `-A KUBE-FORWARD ${known} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
  ]
}

/** The mark is taken off before the packet is masqueraded: it would be seen again on one that is wrapped in another. */
function masqueradeRules({ masqueradeMark, randomFully }: RuleSettings): readonly string[] {
  const mark = hexMark(masqueradeMark)
  const why = comment('kubernetes service traffic requiring SNAT')
  return [
    `-A KUBE-POSTROUTING -m mark ! --mark ${mark}/${mark} -j RETURN`,
    `-A KUBE-POSTROUTING -j MARK --xor-mark ${mark}`,
    `-A KUBE-POSTROUTING ${why} -j MASQUERADE${randomFully ? ' --random-fully' : ''}`,
    `-A KUBE-MARK-MASQ -j MARK --or-mark ${mark}`,
  ]
}

const NODE_PORTS = comment('kubernetes service nodeports; NOTE: this must be the last rule in this chain')

/** An address and port that is somebody's frontend goes before node ports of the same number. */
function nodePortTail(
  { family, localhostNodePorts }: RuleSettings,
  addresses: NodePortAddresses,
): readonly string[] {
  const rule = `-A KUBE-SERVICES ${NODE_PORTS}`
  if (addresses === 'all') {
    let except = ''
    if (family === 'ipv6') except = ' ! -d ::1/128'
    else if (!localhostNodePorts) except = ' ! -d 127.0.0.0/8'
    return [`${rule} -m addrtype --dst-type LOCAL${except} -j KUBE-NODEPORTS`]
  }
  return addresses
    .filter((address) => address !== '::1' && (localhostNodePorts || !address.startsWith('127.')))
    .map((address) => `${rule} -d ${address} -j KUBE-NODEPORTS`)
}
