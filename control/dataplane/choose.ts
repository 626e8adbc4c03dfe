/** Which dataplane, from what was asked for and what each of them lacks on this node. Pure. */

import type { Dataplane } from './dataplane.ts'

export type DataplaneName = Dataplane['name']

/** `auto`: eBPF where it can work, else iptables. */
export type Mode = DataplaneName | 'auto'

/** What keeps each of them from working here, one phrase each; none: it works. Left out: nobody looked. */
export type Findings = Partial<Record<DataplaneName, readonly string[]>>

/**
 * `configured`: asked for by name. `fits`: it is the better one, and can work. `fallback`: the better one cannot. The
 * words are an interface: metrics have them.
 */
export type ChoiceReason = 'configured' | 'fits' | 'fallback'

export interface Choice {
  readonly dataplane: DataplaneName
  readonly reason: ChoiceReason
  /** A clause, after the dataplane's name: why it is this one. */
  readonly why: string
}

export interface NoChoice {
  readonly dataplane: undefined
  /** One line: what is lacking, and what to do. */
  readonly refusal: string
}

/** As people call them. */
export const DATAPLANE_NAMES: Readonly<Record<DataplaneName, string>> = { bpf: 'eBPF', iptables: 'iptables' }

/** In `auto` the better one first. Those that are to be looked at, in their order, until one can work. */
export function candidates(mode: Mode): readonly DataplaneName[] {
  return mode === 'auto' ? ['bpf', 'iptables'] : [mode]
}

/** The first candidate that lacks nothing. One that nobody looked at cannot be chosen. */
export function choose(mode: Mode, findings: Findings): Choice | NoChoice {
  const chosen = candidates(mode).find((name) => findings[name]?.length === 0)
  if (chosen === undefined) return { dataplane: undefined, refusal: refusalText(mode, findings) }
  if (mode !== 'auto') {
    return { dataplane: chosen, reason: 'configured', why: `--proxy-mode ${mode} asks for it` }
  }
  if (chosen === 'bpf') return { dataplane: chosen, reason: 'fits', why: 'the kernel takes its programs' }
  return { dataplane: chosen, reason: 'fallback', why: lackText('bpf', findings) }
}

function refusalText(mode: Mode, findings: Findings): string {
  const lacks = candidates(mode).map((name) => lackText(name, findings))
  const asked = mode === 'auto' ? 'no dataplane can work here: ' : `--proxy-mode ${mode}: `
  const other = mode === 'bpf' ? ', and --proxy-mode auto takes iptables where it must' : ''
  return `${asked}${lacks.join('. And ')}. \`sluice probe\` shows all that is needed${other}`
}

/** `eBPF cannot work here: no bpf(2) (…); no …` */
function lackText(name: DataplaneName, findings: Findings): string {
  const lacking = findings[name]
  const what = lacking === undefined ? 'nobody looked' : lacking.join('; ')
  return `${DATAPLANE_NAMES[name]} cannot work here: ${what}`
}
