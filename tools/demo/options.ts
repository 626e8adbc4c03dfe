/** The demo's command line. Pure. */

import { parseArgs } from 'node:util'
import type { NodeSettings, SourceKind } from '../cluster/index.ts'

const PROXY_MODES = ['auto', 'bpf', 'iptables'] as const
export type ProxyMode = (typeof PROXY_MODES)[number]

export interface DemoOptions {
  /** Show everything once and end, instead of staying up to play with. */
  readonly once: boolean
  /** Where the daemons find the objects. */
  readonly source: SourceKind
  /** The daemons' option of that name. */
  readonly proxyMode: ProxyMode
  /** Under which circumstances on the nodes. */
  readonly settings: Partial<NodeSettings>
  /** Whether somebody else's program is on every device of the nodes. */
  readonly foreignProgram: boolean
}

export const USAGE = `usage: npm start [-- OPTION …]

  --once               show everything, print a summary and end: exit code 0 if all of it was right
  --source KIND        files: the daemons read the manifests (default); kubernetes: they watch an API server that has them
  --proxy-mode MODE    auto, bpf or iptables: the daemons' dataplane (default auto: iptables where the kernel cannot do eBPF)
  --rp-filter          nodes with strict reverse path filtering (net.ipv4.conf.all.rp_filter=1)
  --forward-drop       nodes whose iptables FORWARD chain has policy DROP
  --drop-invalid       nodes that drop what conntrack calls INVALID
  --br-netfilter 0|1   whether bridged packets pass iptables (default 0)
  --vxlan              nodes that reach each other's pods through a VXLAN tunnel, as flannel has it
  --masquerade 0|1     whether the CNI masquerades pods that leave the cluster, --random-fully (default 1)
  --foreign-program    somebody else's tcx program, which ends the chain, on every device of the nodes
`

/** Throws an error that says what the arguments should be. */
export function parseOptions(args: readonly string[]): DemoOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      once: { type: 'boolean', default: false },
      source: { type: 'string', default: 'files' },
      'proxy-mode': { type: 'string', default: 'auto' },
      'rp-filter': { type: 'boolean', default: false },
      'forward-drop': { type: 'boolean', default: false },
      'drop-invalid': { type: 'boolean', default: false },
      'br-netfilter': { type: 'string', default: '0' },
      vxlan: { type: 'boolean', default: false },
      masquerade: { type: 'string', default: '1' },
      'foreign-program': { type: 'boolean', default: false },
    },
  })
  const brNetfilter = zeroOrOne('--br-netfilter', values['br-netfilter'])
  const masquerade = zeroOrOne('--masquerade', values.masquerade) === 1
  const { source } = values
  if (source !== 'files' && source !== 'kubernetes') {
    throw new Error(`--source ${source}: takes files or kubernetes`)
  }
  const proxyMode = PROXY_MODES.find((mode) => mode === values['proxy-mode'])
  if (proxyMode === undefined) {
    throw new Error(`--proxy-mode ${values['proxy-mode']}: takes ${PROXY_MODES.join(', ')}`)
  }
  return {
    once: values.once,
    source,
    proxyMode,
    settings: {
      rpFilter: values['rp-filter'] ? 1 : 0,
      forwardPolicyDrop: values['forward-drop'],
      dropInvalid: values['drop-invalid'],
      brNetfilter,
      masquerade,
      vxlan: values.vxlan,
    },
    foreignProgram: values['foreign-program'],
  }
}

function zeroOrOne(option: string, text: string): 0 | 1 {
  if (text !== '0' && text !== '1') throw new Error(`${option} ${text}: takes 0 or 1`)
  return text === '1' ? 1 : 0
}
