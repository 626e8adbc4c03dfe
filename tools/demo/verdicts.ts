/** From answers to a verdict: was that right, and how to show it. Pure. */

import type { Answer } from '../cluster/index.ts'
import { backendsOf } from '../cluster/index.ts'

export interface Verdict {
  readonly good: boolean
  /** What happened, for the person who watches. */
  readonly shown: string
}

/** Each of the backends answers in its turn: any so many answers in a row are from different ones. */
export function inTurn(answers: readonly Answer[], backends: readonly string[]): Verdict {
  const names = backendsOf(answers)
  const good = names.every((name, index) => {
    const round = names.slice(index, index + backends.length)
    return backends.includes(name) && new Set(round).size === round.length
  })
  return { good: good && answers.length > 0, shown: names.join(' ') }
}

/** One backend, of those allowed, answers everything. */
export function alwaysTheSame(answers: readonly Answer[], backends: readonly string[]): Verdict {
  const names = backendsOf(answers)
  const [first = ''] = names
  const good = backends.includes(first) && names.every((name) => name === first)
  return { good, shown: good ? `${first}, ${names.length} times` : names.join(' ') }
}

/** Every request fails, and with this error. */
export function allFail(answers: readonly Answer[], error: string): Verdict {
  const good = answers.length > 0 && answers.every((answer) => !answer.ok && answer.error === error)
  return { good, shown: backendsOf(answers).join(' ') }
}

/** The backend saw the client with the address that `expected` gives for it, or with one of them. */
export function seenAs(
  answers: readonly Answer[],
  expected: (backend: string) => string | readonly string[],
): Verdict {
  const shown = answers.map((answer) =>
    answer.ok ? `${answer.backend} saw ${answer.peer.address}` : answer.error,
  )
  const good = answers.every(
    (answer) => answer.ok && [expected(answer.backend)].flat().includes(answer.peer.address),
  )
  return { good: good && answers.length > 0, shown: [...new Set(shown)].sort().join(', ') }
}

/** The client's socket names as its peer what the client asked, whatever answered. */
export function namesAsPeer(answers: readonly Answer[], asked: string): Verdict {
  const others = answers.map((answer) => (answer.ok ? answer.remote.address : answer.error))
  const good = others.length > 0 && others.every((address) => address === asked)
  return { good, shown: [...new Set(others)].join(', ') }
}

/** Good when all are; shows the first that is not, else the first. */
export function every(...verdicts: readonly [Verdict, ...Verdict[]]): Verdict {
  return verdicts.find((verdict) => !verdict.good) ?? verdicts[0]
}
