/**
 * kube-proxy's flags: those that are options of ours by the same name, and the others, which are understood by the field
 * of its configuration that they stand for. Pure.
 */

import { type Field, fieldsOf, isField, type Problem, readTable, type Table, valueAt } from './fields.ts'
import { KUBE_PROXY, type KubeProxyValues } from './kube-proxy.ts'
import { Refusal } from './refusal.ts'
import { brokenRules, changedNothing, shown } from './rules.ts'

/** Options of ours that are called as kube-proxy's flags, and do the same. */
const OPTIONS: readonly string[] = [
  '--kubeconfig',
  '--hostname-override',
  '--v',
  '--logging-format',
  '--healthz-bind-address',
  '--metrics-bind-address',
  '--bind-address-hard-fail',
  '--proxy-mode',
  '--ipvs-scheduler',
  '--iptables-masquerade-bit',
  '--masquerade-all',
  '--iptables-localhost-nodeports',
  '--detect-local-mode',
  '--pod-bridge-interface',
  '--pod-interface-name-prefix',
  '--cluster-cidr',
  '--nodeport-addresses',
  '--conntrack-tcp-timeout-established',
  '--conntrack-tcp-timeout-close-wait',
  '--conntrack-udp-timeout',
  '--conntrack-udp-timeout-stream',
]

/** Of former releases; options of ours, too, and no field stands for them. */
const PORT_FLAGS: readonly string[] = ['--healthz-port', '--metrics-port']

/** With `--config`, these count all the same, as with kube-proxy. */
const BESIDE_CONFIG: readonly string[] = [
  '--hostname-override',
  '--v',
  '--logging-format',
  '--vmodule',
  '--log-flush-frequency',
]

/** A flag that is no option of ours. */
export interface FieldFlag {
  /** With its dashes. */
  readonly flag: string
  readonly isBoolean: boolean
  readonly means: string
}

/** Flags whose field says all about them. */
export const FIELD_FLAGS: readonly FieldFlag[] = [...fieldsOf(KUBE_PROXY)].flatMap(
  ([, { flag, kind, means }]) =>
    flag === undefined || OPTIONS.includes(flag)
      ? []
      : [{ flag, isBoolean: typeof kind.zero === 'boolean', means }],
)

/** Flags without a field: what their giver is told; undefined: nothing, since nobody would notice. */
export const OTHER_FLAGS: Readonly<Record<string, { readonly isBoolean: boolean; readonly told?: string }>> =
  {
    '--boot-id-file': { isBoolean: false },
    '--machine-id-file': { isBoolean: false },
    '--log-dir': { isBoolean: false },
    '--log-file': { isBoolean: false },
    '--log-file-max-size': { isBoolean: false },
    '--log-text-info-buffer-size': { isBoolean: false },
    '--log-text-split-stream': { isBoolean: true },
    '--log-json-info-buffer-size': { isBoolean: false },
    '--log-json-split-stream': { isBoolean: true },
    '--log-backtrace-at': { isBoolean: false },
    '--logtostderr': { isBoolean: true },
    '--alsologtostderr': { isBoolean: true },
    '--stderrthreshold': { isBoolean: false },
    '--one-output': { isBoolean: true },
    '--add-dir-header': { isBoolean: true },
    '--skip-headers': { isBoolean: true },
    '--skip-log-headers': { isBoolean: true },
    '--udp-timeout': { isBoolean: false, told: 'it was of the userspace mode; see --conntrack-udp-timeout' },
    '--cleanup-ipvs': { isBoolean: true, told: 'see sluice cleanup --kube-proxy' },
    '--cleanup-iptables': { isBoolean: true, told: 'see sluice cleanup --kube-proxy' },
    '--resource-container': { isBoolean: false, told: 'no resource container is made' },
  }

/** As kube-proxy reads its flags: words may have underscores between them, too. What follows `=` is not touched. */
export function withDashes(argument: string): string {
  if (!argument.startsWith('--')) return argument
  const [flag = '', ...value] = argument.split('=')
  return [flag.replaceAll('_', '-'), ...value].join('=')
}

export function isFieldFlag(flag: string): boolean {
  return Object.hasOwn(OTHER_FLAGS, flag) || FIELD_FLAGS.some((each) => each.flag === flag)
}

/** Texts of flags by the flag, dashes included: those of `FIELD_FLAGS` and `OTHER_FLAGS`. */
export type FlagTexts = Readonly<Record<string, string>>

/** What they say: the fields of kube-proxy's configuration, where no file says it, and the warnings. */
export interface ReadFlags {
  readonly values: KubeProxyValues
  readonly warnings: readonly string[]
}

/** @throws Refusal that names every flag that cannot be used */
export function readFlags(texts: FlagTexts): ReadFlags {
  const problems: Problem[] = []
  const values = readTable(KUBE_PROXY, documentOf(KUBE_PROXY, texts), { problems, unknown: [] })
  const all = [...problems, ...brokenRules(values)].map(({ path, got, takes }) => {
    const flag = flagAt(path) ?? path.join('.')
    return `${flag}: got ${shown(texts[flag] ?? got)}. ${takes}`
  })
  if (all.length > 0) throw new Refusal(all.join('\n  '))
  const others = Object.keys(texts).flatMap((flag) => {
    const told = OTHER_FLAGS[flag]?.told
    return told === undefined ? [] : [`${flag}: it changes nothing: ${told}`]
  })
  return { values, warnings: [...changedNothing(values, (path) => flagAt(path)), ...others] }
}

function flagAt(path: readonly string[]): string | undefined {
  const entry = valueAt(KUBE_PROXY, path)
  return typeof entry === 'object' && entry !== null && 'flag' in entry ? String(entry.flag) : undefined
}

/** As a file would have it. */
function documentOf(table: Table, texts: FlagTexts): Readonly<Record<string, unknown>> {
  const fromFlag = ({ flag, kind }: Field<unknown>) => {
    const text = flag === undefined ? undefined : texts[flag]
    return text === undefined ? undefined : kind.fromText(text)
  }
  return Object.fromEntries(
    Object.entries(table).map(([name, entry]) => [
      name,
      isField(entry) ? fromFlag(entry) : documentOf(entry, texts),
    ]),
  )
}

/** The flags that mean nothing beside `--config`, as with kube-proxy, in one warning. */
export function flagsBesideConfig(given: readonly string[]): readonly string[] {
  const known = [...OPTIONS, ...PORT_FLAGS, ...FIELD_FLAGS.map(({ flag }) => flag)]
  const vain = given.filter((flag) => known.includes(flag) && !BESIDE_CONFIG.includes(flag))
  return vain.length === 0
    ? []
    : [`beside --config these flags change nothing, as with kube-proxy: ${vain.join(', ')}`]
}
