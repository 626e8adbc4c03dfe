/** Which problems are new and which are gone, so that each is told once. Pure. */

import type { AnyProblem } from './parts.ts'

/** The problems that are known, by what makes each of them one. */
export type KnownProblems = ReadonlyMap<string, AnyProblem>

export function knownProblems(problems: readonly AnyProblem[]): KnownProblems {
  return new Map(problems.map((problem) => [identityOf(problem), problem]))
}

/** Moved by a line it is the same problem: only the file counts. */
function identityOf(problem: AnyProblem): string {
  const file = 'place' in problem ? problem.place.replace(/:\d+$/, '') : ''
  return JSON.stringify([file, problem.object, problem.field, problem.message])
}

/** Those of `problems` that are not among `others`. */
export function without(problems: KnownProblems, others: KnownProblems): readonly AnyProblem[] {
  return [...problems].filter(([identity]) => !others.has(identity)).map(([, problem]) => problem)
}
