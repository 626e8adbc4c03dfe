/** How the steps of a row are played on whatever is being tested, and what they come to. */

import { judge, keptInstead, type Outcome, type Standard } from './judge.ts'
import type { Deviation } from './report.ts'
import type { Expectation, PacketRow, Probe, RowFamily, Step } from './types.ts'

/** What is tested: a set-up on the models of two nodes, or on two nodes. */
export interface Subject {
  /** Resolves when the objects are others; what is tested may follow a moment later. */
  change(name: string): Promise<void> | void
  setZone(zone: string): Promise<void> | void
  /**
   * What comes of a probe, for each who asks. Goes on asking until it is what is expected, or cannot be any more.
   *
   * @param expected what would be right
   * @param settled whether everything has been written long ago: then the first answers count
   */
  probe(
    probe: Probe,
    family: RowFamily,
    expected: Expectation,
    settled: boolean,
  ): Promise<readonly Outcome[]> | readonly Outcome[]
}

export interface Played {
  /** Empty: as expected. */
  readonly failures: readonly string[]
  readonly deviations: readonly Deviation[]
}

const PRESERVE = 'clientAddress: preserve'

/** Plays a row in one family. */
export async function playRow(
  row: Pick<PacketRow, 'id' | 'steps'>,
  family: RowFamily,
  subject: Subject,
  standard: Standard,
): Promise<Played> {
  const failures: string[] = []
  const deviations: Deviation[] = []
  // A row that ran before may have left the zone, and its own comes back.
  let settled = !row.steps.some((step) => 'zone' in step)
  for (const scene of scenesOf(row.steps)) {
    if ('change' in scene) {
      await subject.change(scene.change)
      settled = false
    } else if ('zone' in scene) {
      await subject.setZone(scene.zone)
      settled = false
    } else {
      const isSettled = settled
      const played = await Promise.all(
        scene.probes.map((probe) =>
          playProbe(row.id, probe, probe.family ?? family, subject, standard, isSettled),
        ),
      )
      failures.push(...played.flatMap((each) => each.failures))
      deviations.push(...played.flatMap((each) => each.deviations))
      // What comes after a step that failed would tell nothing more.
      if (failures.length > 0) break
    }
  }
  return { failures, deviations }
}

type Scene = Exclude<Step, Probe> | { readonly probes: readonly Probe[] }

/** Probes that follow each other belong together. */
function scenesOf(steps: readonly Step[]): readonly Scene[] {
  const scenes: Scene[] = []
  let probes: Probe[] = []
  for (const step of steps) {
    if ('from' in step) {
      if (probes.length === 0) scenes.push({ probes })
      probes.push(step)
    } else {
      probes = []
      scenes.push(step)
    }
  }
  return scenes
}

async function playProbe(
  id: string,
  probe: Probe,
  family: RowFamily,
  subject: Subject,
  standard: Standard,
  settled: boolean,
): Promise<Played> {
  const chosen = standard.choices === 'ours' ? probe.chosen : undefined
  const expected = chosen?.expect ?? probe.expect
  const outcomes = await subject.probe(probe, family, expected, settled)
  const failures = outcomes.flatMap((outcome) => judge(expected, outcome, standard.clientAddress) ?? [])
  const where = `${probe.from} → ${probe.to}, IPv${family}`
  return {
    failures: [...new Set(failures)].map((failure) => `${where}: ${failure}`),
    deviations: deviationsOf(id, { ...probe, chosen }, outcomes),
  }
}

function deviationsOf(
  id: string,
  probe: Pick<Probe, 'expect'> & { readonly chosen: Probe['chosen'] | undefined },
  outcomes: readonly Outcome[],
): readonly Deviation[] {
  const { expect, chosen } = probe
  if (chosen !== undefined) {
    return [{ id, kubeProxy: resultText(expect), ours: resultText(chosen.expect), why: chosen.why }]
  }
  if (!outcomes.some((outcome) => keptInstead(expect, outcome))) return []
  return [{ id, kubeProxy: 'masqueraded', ours: "the client's address kept", why: PRESERVE }]
}

function resultText(expected: Expectation): string {
  if (expected.what === 'answered') return 'answered'
  return expected.what === 'unhandled' ? 'not handled' : expected.what
}
