/** Which set-ups are in the cluster, each with a block of addresses. Pure. */

import type { Instance } from './addresses.ts'
import { SECTIONS } from './rows/index.ts'
import type { PacketRow, Row, RowFamily, Setup } from './types.ts'

/** Every row of the table, in its order. */
export const ROWS: readonly Row[] = SECTIONS.flatMap(({ rows }) => rows)

export const ROWS_BY_ID: ReadonlyMap<string, Row> = new Map(ROWS.map((row) => [row.id, row]))

const SETUPS: ReadonlyMap<string, Setup> = new Map(SECTIONS.flatMap(({ setups }) => Object.entries(setups)))

/** A block is a byte of an IPv4 address. None is 0, which IPv6 would write in another way. */
const BLOCKS_MAX = 255

/** All set-ups of these families. */
export function instancesFor(families: readonly RowFamily[]): readonly Instance[] {
  if (SETUPS.size > BLOCKS_MAX) throw new Error(`there are more than ${BLOCKS_MAX} set-ups`)
  return [...SETUPS].flatMap(([name, setup], index) =>
    familiesOfSetup(setup, families).map((each) => ({
      name: `${name}-${each.join('')}`,
      setup,
      families: each,
      block: index + 1,
    })),
  )
}

/** A dual one exists once, where both are asked for. */
function familiesOfSetup(setup: Setup, families: readonly RowFamily[]): readonly (readonly RowFamily[])[] {
  if (setup.families !== 'dual') return families.map((family) => [family])
  return families.length === 2 ? [families] : []
}

export function instanceNamed(instances: readonly Instance[], setup: string, family: RowFamily): Instance {
  const found = instances.find(
    ({ name, families }) => name === `${setup}-${families.join('')}` && families.includes(family),
  )
  if (found === undefined) throw new Error(`there is no set-up ${setup} for IPv${family}`)
  return found
}

/** In which families a row runs: a dual set-up once, its probes say of which family they are. */
export function familiesOf(
  row: Pick<PacketRow, 'family'> & { readonly setup?: string },
  families: readonly RowFamily[],
): readonly RowFamily[] {
  const setup = row.setup === undefined ? undefined : SETUPS.get(row.setup)
  if (setup?.families === 'dual') return families.length === 2 ? [4] : []
  return families.filter((family) => row.family === undefined || row.family === family)
}
