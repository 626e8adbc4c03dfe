/** The table, answered by the model alone. */

import type { Instance } from '../addresses.ts'
import { familiesOf, instanceNamed, instancesFor } from '../instances.ts'
import type { ClientAddress } from '../judge.ts'
import { type Played, playRow } from '../play.ts'
import type { Report, RowResult } from '../report.ts'
import type { PacketRow, Row, RowFamily } from '../types.ts'
import { VARIANTS } from '../variants.ts'
import type { Fault } from './faults.ts'
import { checkModelRow } from './rows.ts'
import { ModelSubject } from './subject.ts'

export interface ModelRunOptions {
  readonly rows: readonly Row[]
  readonly families: readonly RowFamily[]
  readonly clientAddress: ClientAddress
  readonly fault?: Fault | undefined
}

export async function runModel(options: ModelRunOptions): Promise<Report> {
  const results: RowResult[] = []
  const deviations: Report['deviations'][number][] = []
  const instances = instancesFor(options.families)
  for (const row of options.rows) {
    if ('story' in row) {
      results.push({
        id: row.id,
        result: 'not applicable',
        reason: `${row.story}, which takes more than a model`,
      })
    } else if (row.kind === 'rules') {
      results.push({ id: row.id, result: 'not applicable', reason: row.why })
    } else if (row.kind === 'model') {
      results.push(resultOf(row.id, checkModelRow(row, options.fault)))
    } else if (familiesOf(row, options.families).length === 0) {
      results.push({ id: row.id, result: 'skipped', reason: 'of another family than asked for' })
    } else {
      const played = await playEach(row, instances, options)
      results.push(
        resultOf(
          row.id,
          played.flatMap(({ failures }) => failures),
        ),
      )
      deviations.push(...played.flatMap((each) => each.deviations))
    }
  }
  return { results, deviations }
}

async function playEach(
  row: PacketRow,
  instances: readonly Instance[],
  { families, clientAddress, fault }: ModelRunOptions,
): Promise<readonly Played[]> {
  const played: Played[] = []
  for (const family of familiesOf(row, families)) {
    const instance = instanceNamed(instances, row.setup, family)
    const variant = VARIANTS[row.variant ?? 'usual']
    const subject = new ModelSubject({ instance, variant, clientAddress, fault })
    played.push(await playRow(row, family, subject, { clientAddress, choices: 'ours' }))
  }
  return played
}

/** Failures, each once, as one reason. */
export function resultOf(id: string, failures: readonly string[]): RowResult {
  if (failures.length === 0) return { id, result: 'passed' }
  return { id, result: 'failed', reason: [...new Set(failures)].join('; ') }
}
