/** Tells the operator when Sluice itself is the reason that packets end, and what to change. */

import { dropReason } from '../layout/generated.ts'
import type { Logger } from '../log.ts'

/** Packets that the programs ended, by `enum drop_reason`, all CPUs together. */
export type DropCounts = (reason: number) => bigint

/** A map of flows, and how many sides of flows it can hold. */
interface FlowTable {
  readonly name: string
  readonly entries: number
}

/** A minute: what goes on is worth a line now and then, not one a second. */
const QUIET_MS = 60_000

interface Worry {
  readonly reason: number
  readonly message: string
}

/**
 * The reasons that no object of the cluster explains. Refusals for want of an endpoint and the like are what the
 * manifests ask for: they are counted, and not told here.
 */
function worries(flowTables: readonly FlowTable[]): readonly Worry[] {
  const tables = flowTables.map(({ name, entries }) => `${name}: ${entries} entries`).join(', ')
  const names = flowTables.map(({ name }) => name).join(' or ')
  return [
    {
      reason: dropReason.FLOWS_FULL,
      message: `a flow table (${tables}; two a flow) is full: new connections are refused, established ones go on; raise --map-size ${names}`,
    },
    {
      reason: dropReason.COLLISION,
      message:
        'no free source port towards a backend was found for some connections, which were refused: one client has too many to it',
    },
    {
      reason: dropReason.REWRITE_FAILED,
      message: 'the kernel refused to rewrite some packets, which were dropped',
    },
  ]
}

/** Follows the counters. What an earlier daemon counted is not told again. */
export class DropReport {
  readonly #counts: DropCounts
  readonly #log: Pick<Logger, 'warn'>
  readonly #nowMs: () => number
  readonly #followed: { readonly worry: Worry; told: bigint; quietUntilMs: number }[]

  constructor(options: {
    readonly counts: DropCounts
    /** Of all families: the counters do not tell them apart. */
    readonly flowTables: readonly FlowTable[]
    readonly log: Pick<Logger, 'warn'>
    readonly nowMs: () => number
  }) {
    this.#counts = options.counts
    this.#log = options.log
    this.#nowMs = options.nowMs
    this.#followed = worries(options.flowTables).map((worry) => ({
      worry,
      told: this.#counts(worry.reason),
      quietUntilMs: Number.NEGATIVE_INFINITY,
    }))
  }

  /** Tells what has been counted since it was last told, each reason at most once a minute. */
  look(): void {
    const now = this.#nowMs()
    for (const followed of this.#followed) {
      const count = this.#counts(followed.worry.reason)
      if (count === followed.told || now < followed.quietUntilMs) continue
      this.#log.warn(followed.worry.message, { packets: Number(count - followed.told) })
      followed.told = count
      followed.quietUntilMs = now + QUIET_MS
    }
  }
}
