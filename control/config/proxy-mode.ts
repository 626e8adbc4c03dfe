/**
 * Which dataplane and which scheduler are asked for: kube-proxy's flags under their names, its other modes and IPVS's
 * schedulers in our terms. Pure: a text that does not fit throws a `Refusal` that says what the option takes.
 */

import type { Scheduler } from '../model/types.ts'
import { Refusal } from './refusal.ts'

/** `auto`: eBPF where the kernel takes the programs, else iptables. */
export const PROXY_MODES = ['auto', 'bpf', 'iptables'] as const
export type ProxyMode = (typeof PROXY_MODES)[number]

/** kube-proxy's modes that are none of ours. Whoever comes with one of them gets `auto`. */
const FOREIGN_MODES = ['nftables', 'ipvs', 'userspace'] as const
type ForeignMode = (typeof FOREIGN_MODES)[number]

/** IPVS's schedulers that have a name with us. */
const IPVS_SCHEDULERS: ReadonlyMap<string, Scheduler> = new Map([
  ['rr', 'round-robin'],
  ['wrr', 'weighted-round-robin'],
  ['lc', 'least-connection'],
  ['wlc', 'weighted-least-connection'],
  ['sh', 'source-hash'],
  ['dh', 'destination-hash'],
  ['sed', 'shortest-expected-delay'],
  ['nq', 'never-queue'],
  ['mh', 'maglev'],
])

/** As commander hands them over. */
export interface ReadProxyOptions {
  readonly proxyMode: ProxyMode | ForeignMode
  readonly scheduler?: Scheduler
  /** As IPVS has it; empty as with kube-proxy: `rr`. */
  readonly ipvsScheduler?: string
}

/** What they come to together. */
export interface ProxyOptions {
  readonly proxyMode: ProxyMode
  /** For services that ask for none; undefined: the dataplane's own choice. */
  readonly scheduler: Scheduler | undefined
  /** What is otherwise than whoever gave the options may think, a sentence each, for the log. */
  readonly warnings: readonly string[]
}

/** Empty is kube-proxy's default: its choice, and then ours. */
export function parseProxyMode(text: string): ReadProxyOptions['proxyMode'] {
  const mode = [...PROXY_MODES, ...FOREIGN_MODES].find((each) => each === (text || 'auto'))
  if (mode !== undefined) return mode
  const why = text === 'kernelspace' ? ' kernelspace is for Windows.' : ''
  throw new Refusal(`It takes ${PROXY_MODES.join(', ')}, and ${FOREIGN_MODES.join(', ')} for auto.${why}`)
}

export function proxyOptions({ proxyMode: mode, scheduler, ipvsScheduler }: ReadProxyOptions): ProxyOptions {
  const auto = (text: string, mapped?: Scheduler): ProxyOptions => {
    const warning = `--proxy-mode ${mode}: there is no such dataplane here, and one is chosen as with auto${text}`
    return { proxyMode: 'auto', scheduler: scheduler ?? mapped, warnings: [warning] }
  }
  switch (mode) {
    case 'nftables':
      return auto('')
    case 'userspace':
      return auto(scheduler === undefined ? '; round-robin, as ever with userspace' : '', 'round-robin')
    case 'ipvs': {
      const { used, text } = ipvsSchedulerOf(ipvsScheduler || 'rr')
      return auto(scheduler === undefined ? text : '', used)
    }
    default: {
      const isInVain = (ipvsScheduler ?? '') !== ''
      const warning = `--ipvs-scheduler ${ipvsScheduler}: it goes with --proxy-mode ipvs and changes nothing; see --scheduler`
      return { proxyMode: mode, scheduler, warnings: isInVain ? [warning] : [] }
    }
  }
}

function ipvsSchedulerOf(name: string): { readonly used: Scheduler; readonly text: string } {
  const ours = IPVS_SCHEDULERS.get(name)
  return ours === undefined
    ? { used: 'round-robin', text: `; the scheduler ${name} is unknown here, and round-robin is used` }
    : { used: ours, text: `; ${ours}, IPVS's ${name}` }
}
