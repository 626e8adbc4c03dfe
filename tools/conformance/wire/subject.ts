/** A set-up on the two nodes of the cluster of namespaces. */

import { setTimeout as delay } from 'node:timers/promises'
import { patience } from '../../cluster/index.ts'
import { askersOf, type Instance, targetOf } from '../addresses.ts'
import { type ClientAddress, judge, type Outcome } from '../judge.ts'
import type { Subject } from '../play.ts'
import type { Expectation, Probe, RowFamily } from '../types.ts'
import { ask, type Question } from './ask.ts'
import type { ConformanceStage } from './stage.ts'

/** For a change to arrive: far beyond what it takes. */
const CHANGE_LIMIT_MS = 20_000
const PAUSE_MS = 50

export class WireSubject implements Subject {
  readonly #stage: ConformanceStage
  readonly #instance: Instance
  readonly #mode: ClientAddress

  constructor(stage: ConformanceStage, instance: Instance, mode: ClientAddress) {
    this.#stage = stage
    this.#instance = instance
    this.#mode = mode
  }

  change(name: string): void {
    this.#stage.change(this.#instance, name)
  }

  setZone(zone: string): void {
    this.#stage.setNode({ zone })
  }

  async probe(
    probe: Probe,
    family: RowFamily,
    expected: Expectation,
    settled: boolean,
  ): Promise<readonly Outcome[]> {
    const target = targetOf(probe, this.#instance, family)
    return await Promise.all(
      askersOf(probe.from, this.#instance, family).map(async (asker) => {
        const member = this.#stage.cluster.member(asker.member)
        const { nodeAddresses, sctp } = this.#stage
        return await this.#ask({ asker, member, target, probe, expected, nodeAddresses, sctp }, settled)
      }),
    )
  }

  /** After a change: until it is as expected twice in a row, so that not chance alone decides. */
  async #ask(question: Question, settled: boolean): Promise<Outcome> {
    if (settled) return await ask(question)
    const limit = AbortSignal.timeout(patience(CHANGE_LIMIT_MS))
    let good = 0
    for (;;) {
      const outcome = await ask(question)
      good = judge(question.expected, outcome, this.#mode) === undefined ? good + 1 : 0
      if (good === 2 || limit.aborted) return outcome
      await delay(PAUSE_MS)
    }
  }
}
