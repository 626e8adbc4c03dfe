/** The dataplane that is chosen, started: to start it is to find out whether it can work. */

import { Refusal } from '../config/refusal.ts'
import { type Choice, candidates, choose, type DataplaneName } from '../dataplane/choose.ts'
import { startBpfPart } from './bpf-part.ts'
import { type DataplanePart, type PartOptions, UnfitError } from './dataplane-part.ts'
import { startIptablesPart } from './iptables-part.ts'

export interface StartedPart {
  readonly part: DataplanePart
  readonly choice: Choice
}

type Starters = Readonly<Record<DataplaneName, (parts: PartOptions) => Promise<DataplanePart>>>

const STARTERS: Starters = { bpf: startBpfPart, iptables: startIptablesPart }

/**
 * Only what a node cannot do at all makes another dataplane be tried, and only here: what fails later, or might go through
 * the next time, is an error. Throws Refusal where none can work; what the dataplane throws otherwise.
 */
export async function startPart(parts: PartOptions, starters: Starters = STARTERS): Promise<StartedPart> {
  const { proxyMode } = parts.options
  const findings: Partial<Record<DataplaneName, readonly string[]>> = {}
  let part: DataplanePart | undefined
  for (const name of candidates(proxyMode)) {
    try {
      part = await starters[name](parts)
      findings[name] = []
      break
    } catch (error) {
      if (!(error instanceof UnfitError)) throw error
      findings[name] = error.lacking
    }
  }
  const choice = choose(proxyMode, findings)
  if (choice.dataplane === undefined) throw new Refusal(choice.refusal)
  if (part === undefined) throw new Error(`the dataplane ${choice.dataplane} was chosen, but did not start`)
  return { part, choice }
}
