/** What fields of kube-proxy's configuration must be beside their kind, alone and together, and what of it changes nothing. Pure. */

import { type FieldPath, fieldsOf, isSame, type Problem, valueAt } from './fields.ts'
import { durationText, parseDuration } from './kinds.ts'
import { KUBE_PROXY, type KubeProxyValues } from './kube-proxy.ts'
import { OWN_MARK_BITS } from './options.ts'

/** The section whose settings count, by the mode: kube-proxy has them once for each. */
export function sectionOf(mode: string): 'iptables' | 'ipvs' | 'nftables' {
  return mode === 'ipvs' || mode === 'nftables' ? mode : 'iptables'
}

/** IPVS has neither of its own. */
export function masqueradeSectionOf(mode: string): 'iptables' | 'nftables' {
  return mode === 'nftables' ? mode : 'iptables'
}

/** Milliseconds of a duration that has been read. */
export function millisecondsOf(duration: string): number {
  return parseDuration(duration) ?? 0
}

const NOT_NEGATIVE: readonly FieldPath[] = [
  ['iptables', 'minSyncPeriod'],
  ['ipvs', 'minSyncPeriod'],
  ['nftables', 'minSyncPeriod'],
  ['ipvs', 'tcpTimeout'],
  ['ipvs', 'tcpFinTimeout'],
  ['ipvs', 'udpTimeout'],
  ['conntrack', 'tcpEstablishedTimeout'],
  ['conntrack', 'tcpCloseWaitTimeout'],
  ['conntrack', 'udpTimeout'],
  ['conntrack', 'udpStreamTimeout'],
]

const POSITIVE: readonly FieldPath[] = [
  ['iptables', 'syncPeriod'],
  ['ipvs', 'syncPeriod'],
  ['nftables', 'syncPeriod'],
  ['configSyncPeriod'],
]

/** What is wrong with values that are each of their kind: kube-proxy's own validation, and the mark bits that are ours. */
export function brokenRules(values: KubeProxyValues): readonly Problem[] {
  return [...signs(values), ...periods(values), ...pods(values), ...marks(values)]
}

function signs(values: KubeProxyValues): readonly Problem[] {
  const below = (paths: readonly FieldPath[], isBelow: (ms: number) => boolean, takes: string) =>
    paths.flatMap((path) => {
      const got = String(valueAt(values, path))
      return isBelow(millisecondsOf(got)) ? [{ path, got, takes }] : []
    })
  return [
    ...below(NOT_NEGATIVE, (ms) => ms < 0, 'It takes a duration that is not negative.'),
    ...below(POSITIVE, (ms) => ms <= 0, 'It takes a duration above 0.'),
  ]
}

function periods(values: KubeProxyValues): readonly Problem[] {
  return (['iptables', 'ipvs', 'nftables'] as const).flatMap((section) => {
    const { syncPeriod, minSyncPeriod } = values[section]
    const longest = millisecondsOf(syncPeriod)
    if (longest <= 0 || millisecondsOf(minSyncPeriod) <= longest) return []
    const takes = `It takes a duration of at most the syncPeriod, which is ${durationText(longest)}.`
    return [{ path: [section, 'minSyncPeriod'], got: minSyncPeriod, takes }]
  })
}

/** A mode of interfaces needs the name. */
function pods({ detectLocalMode, detectLocal }: KubeProxyValues): readonly Problem[] {
  const needed = { BridgeInterface: 'bridgeInterface', InterfaceNamePrefix: 'interfaceNamePrefix' } as const
  if (detectLocalMode !== 'BridgeInterface' && detectLocalMode !== 'InterfaceNamePrefix') return []
  const name = needed[detectLocalMode]
  if (detectLocal[name] !== '') return []
  const takes = `It takes (the beginning of) the name of a network device: detectLocalMode ${detectLocalMode} needs it.`
  return [{ path: ['detectLocal', name], got: '', takes }]
}

function marks(values: KubeProxyValues): readonly Problem[] {
  const section = masqueradeSectionOf(values.mode)
  const got = values[section].masqueradeBit
  if (!OWN_MARK_BITS.some((bit) => bit === got)) return []
  const takes = `It takes a bit from 0 to 31 that is not Sluice's own: ${OWN_MARK_BITS.join(' and ')} are.`
  return [{ path: [section, 'masqueradeBit'], got, takes }]
}

/** One warning for each field that asks for something that there is not, named as whoever asks knows it. */
export function changedNothing(
  values: KubeProxyValues,
  nameOf: (path: FieldPath) => string | undefined = () => undefined,
): readonly string[] {
  return [...fieldsOf(KUBE_PROXY)].flatMap(([path, { becomes, means, normal, zeroIsMeant, kind }]) => {
    const value = valueAt(values, path)
    // A zero that is meant says: leave it as it is. That is what is done.
    const asksForNothing = isSame(value, normal) || (zeroIsMeant === true && isSame(value, kind.zero))
    if (becomes !== 'warned' || asksForNothing) return []
    return [`${nameOf(path) ?? path.join('.')} ${shown(value)}: it changes nothing: ${means}`]
  })
}

/** As it was written, about. */
export function shown(value: unknown): string {
  return JSON.stringify(value) ?? 'nothing'
}
