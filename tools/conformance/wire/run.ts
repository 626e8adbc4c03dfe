/** The table, answered by the kernel: real connections on real devices, with the daemons that a user runs. */

import type { Instance } from '../addresses.ts'
import { familiesOf, instanceNamed, instancesFor, ROWS_BY_ID } from '../instances.ts'
import type { ClientAddress, Standard } from '../judge.ts'
import { checkModelRow } from '../model/rows.ts'
import { resultOf } from '../model/run.ts'
import { type Played, playRow } from '../play.ts'
import type { Deviation, Report, RowResult } from '../report.ts'
import type { PacketRow, Row, RowFamily, RulesRow, StoryRow, VariantName } from '../types.ts'
import { VARIANTS } from '../variants.ts'
import { ConformanceStage, type WireDataplane } from './stage.ts'
import { STORIES } from './stories/index.ts'
import { WireSubject } from './subject.ts'

export interface WireRunOptions {
  readonly dataplane: WireDataplane
  readonly rows: readonly Row[]
  readonly families: readonly RowFamily[]
  readonly clientAddress: ClientAddress
  /** Begins the names of all namespaces. Default: of this process. */
  readonly prefix?: string
  /** Hears what is being done. */
  readonly progress?: (text: string) => void
}

/** Rows that are played at once: two cores are busy with fewer. */
const ROWS_AT_ONCE = 24

export async function runWire(options: WireRunOptions): Promise<Report> {
  const run = new WireRun(options)
  return await run.all()
}

/** A row that is played on the wire, in the families asked for. */
type WireRow = PacketRow | StoryRow | RulesRow

class WireRun {
  readonly #options: WireRunOptions
  readonly #results = new Map<string, RowResult>()
  readonly #deviations: Deviation[] = []

  constructor(options: WireRunOptions) {
    this.#options = options
  }

  async all(): Promise<Report> {
    const { rows, dataplane } = this.#options
    const wire: WireRow[] = []
    for (const row of rows) {
      if (row.kind === 'rules' && dataplane !== 'iptables')
        this.#set({ id: row.id, result: 'not applicable', reason: row.why })
      else if (row.kind === 'model') this.#set(resultOf(row.id, checkModelRow(row)))
      else wire.push(row)
    }
    if (wire.length > 0) await this.#onTheWire(wire)
    return {
      results: rows.flatMap(({ id }) => this.#results.get(id) ?? []),
      deviations: inTableOrder(this.#deviations),
    }
  }

  #set(result: RowResult): void {
    this.#results.set(result.id, result)
  }

  async #onTheWire(rows: readonly WireRow[]): Promise<void> {
    const { dataplane, families, clientAddress, prefix = `slt${process.pid}`, progress } = this.#options
    const instances = instancesFor(families)
    progress?.(`building the cluster, with ${instances.length} set-ups`)
    await using stage = await ConformanceStage.build(prefix, instances, dataplane)
    for (const [variant, each] of Map.groupBy(rows, variantOf)) {
      progress?.(`daemons as in "${variant}": ${each.length} rows`)
      try {
        await stage.start(VARIANTS[variant], clientAddress)
      } catch (error) {
        const lines = messageOf(error).split('\n')
        const reason = lines.length > 2 ? [lines[0], '…', lines.at(-1)].join(' ') : lines.join(' ')
        for (const { id } of each) this.#set(resultOf(id, [reason]))
        continue
      }
      const together = each.filter((row) => !isAlone(row))
      await inParallel(together, ROWS_AT_ONCE, (row) => this.#play(row, stage))
      for (const row of each.filter(isAlone)) await this.#play(row, stage)
    }
  }

  async #play(row: WireRow, stage: ConformanceStage): Promise<void> {
    const families = familiesOf(row, this.#options.families)
    if (families.length === 0) {
      this.#set({ id: row.id, result: 'skipped', reason: 'of another family than asked for' })
      return
    }
    const failures: string[] = []
    const playFamily = async (family: RowFamily): Promise<void> => {
      const played = await this.#playOne(row, family, stage)
      failures.push(...played.failures)
      this.#deviations.push(...played.deviations)
    }
    if (isAlone(row)) for (const family of families) await playFamily(family)
    else await Promise.all(families.map(playFamily))
    this.#set(resultOf(row.id, failures))
  }

  async #playOne(row: WireRow, family: RowFamily, stage: ConformanceStage): Promise<Played> {
    const { clientAddress, dataplane } = this.#options
    const standard: Standard = { clientAddress, choices: dataplane === 'iptables' ? 'kube-proxy' : 'ours' }
    try {
      if (!('steps' in row)) return await tellStory(row, family, stage)
      const instance = instanceNamed(stage.instances, row.setup, family)
      return await playRow(row, family, new WireSubject(stage, instance, clientAddress), standard)
    } catch (error) {
      const oneLine = messageOf(error).replace(/\s+/g, ' ')
      return { failures: [`IPv${family}: ${oneLine}`], deviations: [] }
    } finally {
      if (changesZone(row)) stage.setNode()
    }
  }
}

async function tellStory(
  row: StoryRow | RulesRow,
  family: RowFamily,
  stage: ConformanceStage,
): Promise<Played> {
  const story = STORIES[row.id]
  if (story === undefined) return { failures: ['has no story'], deviations: [] }
  const instance: Instance | undefined =
    row.setup === undefined ? undefined : instanceNamed(stage.instances, row.setup, family)
  const deviations = (await story.tell({ stage, family, instance })) ?? []
  return { failures: [], deviations: deviations.map((deviation) => ({ id: row.id, ...deviation })) }
}

function inTableOrder(deviations: readonly Deviation[]): readonly Deviation[] {
  const order = [...ROWS_BY_ID.keys()]
  return deviations.toSorted((a, b) => order.indexOf(a.id) - order.indexOf(b.id))
}

function variantOf(row: WireRow): VariantName {
  return 'variant' in row ? (row.variant ?? 'usual') : 'usual'
}

function changesZone(row: WireRow): boolean {
  return 'steps' in row && row.steps.some((step) => 'zone' in step)
}

/**
 * It changes what all rows share: the node, a daemon, the API server. Or it is of SCTP, whose packets are made and answered
 * in this process: beside other rows it is so busy that answers take longer than they are waited for.
 */
function isAlone(row: WireRow): boolean {
  return changesZone(row) || isOfSctp(row) || (!('steps' in row) && STORIES[row.id]?.alone === true)
}

function isOfSctp(row: WireRow): boolean {
  return 'steps' in row && row.steps.some((step) => 'protocol' in step && step.protocol === 'SCTP')
}

function messageOf(error: unknown): string {
  // What went wrong first, not what went wrong while tidying up.
  if (error instanceof SuppressedError) return messageOf(error.suppressed)
  return (error instanceof Error ? error.message : String(error)).trim()
}

async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: limit }, worker))
}
