/** What happens to the cluster in which order. Pure. */

import type { Random } from './random.ts'

/** In two lanes, side by side: daemons die while endpoints change. */
export const LANES = {
  daemons: ['kills', 'upgrades', 'SYNs', 'full tables'],
  pods: ['rollouts', 'pods'],
} as const

export type Lane = keyof typeof LANES
export type TrialName = (typeof LANES)[Lane][number]

/** How many there are in ten minutes, and how many of them one trial makes. */
const AMOUNTS: Readonly<Record<TrialName, { readonly inTenMinutes: number; readonly each: number }>> = {
  kills: { inTenMinutes: 100, each: 2 },
  upgrades: { inTenMinutes: 20, each: 2 },
  SYNs: { inTenMinutes: 1_000_000, each: 100_000 },
  'full tables': { inTenMinutes: 2, each: 1 },
  rollouts: { inTenMinutes: 20, each: 1 },
  pods: { inTenMinutes: 200, each: 2 },
}

/** The trials of each lane for so long a soak, in an order of chance's; at least one of each kind. */
export function plan(seconds: number, random: Random): Readonly<Record<Lane, readonly TrialName[]>> {
  const lane = (names: readonly TrialName[]) =>
    shuffled(
      names.flatMap((name) => Array<TrialName>(trials(name, seconds)).fill(name)),
      random,
    )
  return { daemons: lane(LANES.daemons), pods: lane(LANES.pods) }
}

/** How many of a thing one trial of it makes. */
export function amountEach(name: TrialName): number {
  return AMOUNTS[name].each
}

function trials(name: TrialName, seconds: number): number {
  const { inTenMinutes, each } = AMOUNTS[name]
  return Math.max(1, Math.round((inTenMinutes / each) * (seconds / 600)))
}

function shuffled<T>(list: readonly T[], random: Random): readonly T[] {
  const keyed = list.map((value) => ({ value, key: random.fraction() }))
  return keyed.sort((a, b) => a.key - b.key).map(({ value }) => value)
}
