/** What came of a probe, beside what the table says. Pure. */

import type { Expectation } from './types.ts'

/** Whom an endpoint saw. `either`: a process of the node, whose address is the node's. */
export type SeenSource = 'client' | 'node' | 'either' | 'if-needed' | { readonly other: string }

export type Outcome =
  | {
      readonly what: 'answered'
      /** `p1:8080`, each once. */
      readonly by: readonly string[]
      /** Of every answer. */
      readonly sources: readonly SeenSource[]
      /** One client stays with one of them. */
      readonly sticky: boolean
    }
  | { readonly what: 'refused' | 'dropped' | 'unhandled' }
  /** Several things at once, or an error that nothing of the table stands for. */
  | { readonly what: 'else'; readonly details: string }

/** Whether those who must be masqueraded at most may be kept: ours, or exactly as kube-proxy does. */
export type ClientAddress = 'preserve' | 'kube-proxy'

/** What a dataplane is held to. */
export interface Standard {
  readonly clientAddress: ClientAddress
  /** Whether the choices that a row has beside what kube-proxy does are to be seen, or kube-proxy's own results. */
  readonly choices: 'ours' | 'kube-proxy'
}

/** Why the outcome is not what is expected; undefined when it is. */
export function judge(expected: Expectation, outcome: Outcome, mode: ClientAddress): string | undefined {
  if (expected.what === 'gone') {
    return outcome.what === 'answered' ? `${shown(outcome)}, where nobody should` : undefined
  }
  if (outcome.what !== expected.what) return `${shown(outcome)}, not ${wanted(expected)}`
  if (outcome.what !== 'answered' || expected.what !== 'answered') return undefined
  const strangers = outcome.by.filter((name) => !expected.by.some((each) => isNamed(name, each)))
  if (strangers.length > 0)
    return `${strangers.join(' and ')} answered, not only ${expected.by.join(' and ')}`
  if (expected.sticky === true) return outcome.sticky ? undefined : 'one client was answered by several'
  const silent = expected.by.filter((each) => !outcome.by.some((name) => isNamed(name, each)))
  if (silent.length > 0) return `${silent.join(' and ')} never answered`
  const wrong = outcome.sources.find((source) => !isAllowed(source, expected.source, mode))
  return wrong === undefined ? undefined : `the client was seen as ${sourceText(wrong)}`
}

/** Was the client kept where kube-proxy masquerades? */
export function keptInstead(expected: Expectation, outcome: Outcome): boolean {
  return (
    expected.what === 'answered' &&
    expected.source === 'masqueraded' &&
    outcome.what === 'answered' &&
    outcome.sources.some((source) => source === 'client' || source === 'if-needed')
  )
}

/** `p1` is also `p1:8080`. */
function isNamed(name: string, expected: string): boolean {
  return name === expected || name.startsWith(`${expected}:`)
}

function isAllowed(source: SeenSource, rule: string, mode: ClientAddress): boolean {
  if (rule === 'unstated' || source === 'either') return true
  if (rule === 'kept') return source === 'client'
  return source === 'node' || (mode === 'preserve' && (source === 'client' || source === 'if-needed'))
}

function sourceText(source: SeenSource): string {
  if (typeof source === 'object') return source.other
  return source === 'client' ? 'itself' : `${source === 'node' ? '' : 'perhaps '}somebody else`
}

function shown(outcome: Outcome): string {
  if (outcome.what === 'answered') return `answered by ${outcome.by.join(' and ')}`
  return outcome.what === 'else' ? outcome.details : outcome.what
}

function wanted(expected: Expectation): string {
  return expected.what === 'answered' ? `answered by ${expected.by.join(' and ')}` : expected.what
}
