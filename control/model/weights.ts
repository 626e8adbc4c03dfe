/** How much of the new connections each backend gets, where the scheduler knows weights: what a Service says of it. */

/** Annotation of a Service: `PATTERN=WEIGHT` with commas between them, the first that matches an endpoint counts. */
export const WEIGHTS_ANNOTATION = 'sluice.dev/weights'

/** As with IPVS. */
const WEIGHT_MAX = 65_535

/** Of endpoints that no rule matches. */
const WEIGHT_DEFAULT = 1

export interface WeightRule {
  /** Against the name of the endpoint's pod, or its address: `*` stands for any text, `?` for one character. */
  readonly pattern: string
  /** 0 to 65535; 0: takes no new connections, keeps those that it has. */
  readonly weight: number
}

/** In the order in which they are asked; none: all weigh the same. */
export type Weights = readonly WeightRule[]

/** Reads the annotation. `complain` is told of each part that says nothing, which is left out. */
export function parseWeights(text: string, complain: (message: string) => void): Weights {
  return text.split(',').flatMap((part) => {
    const [, pattern, digits] = /^\s*([^\s=,]+)\s*=\s*(\d+)\s*$/.exec(part) ?? []
    const weight = Number(digits)
    if (pattern !== undefined && weight <= WEIGHT_MAX) return [{ pattern, weight }]
    complain(
      `${JSON.stringify(part.trim())} is not PATTERN=WEIGHT with a weight from 0 to ${WEIGHT_MAX}; it is left out`,
    )
    return []
  })
}

export function weightOf(
  { podName, address }: { readonly podName: string; readonly address: string },
  weights: Weights,
): number {
  const found = weights.find(
    ({ pattern }) => pattern === address || (podName !== '' && matches(pattern, podName)),
  )
  return found?.weight ?? WEIGHT_DEFAULT
}

/** Whether a rule says more than that some take no new connections. */
export function weighsUnequally(weights: Weights): boolean {
  return weights.some(({ weight }) => weight > 1)
}

/** `*` any text, `?` one character. In steps that are never taken back but to the last `*`. */
function matches(pattern: string, text: string): boolean {
  let [at, from, star, mark] = [0, 0, -1, 0]
  while (at < text.length) {
    if (pattern[from] === '*') {
      star = from++
      mark = at
    } else if (from < pattern.length && (pattern[from] === '?' || pattern[from] === text[at])) {
      at++
      from++
    } else if (star >= 0) {
      from = star + 1
      at = ++mark
    } else return false
  }
  while (pattern[from] === '*') from++
  return from === pattern.length
}

/**
 * As many turns for each as its weight says, no more than `most` together: in a row in which the turns of each are spread
 * as evenly as can be.
 *
 * Exact where the weights, divided by what they have in common, fit; else in proportion as near as whole turns come, and
 * one for each at least.
 *
 * @param weights greater than 0
 * @param most at least as many as there are weights
 * @returns indexes into the weights
 */
export function weightedTurns(weights: readonly number[], most: number): number[] {
  const turns = turnsOf(weights, most)
  const row = turns.flatMap((count, index) =>
    Array.from({ length: count }, (_, turn) => ({ index, at: (turn + 0.5) / count })),
  )
  return row.sort((a, b) => a.at - b.at || a.index - b.index).map(({ index }) => index)
}

function turnsOf(weights: readonly number[], most: number): readonly number[] {
  const common = weights.reduce(greatestCommonDivisor, 0)
  const sum = weights.reduce((total, weight) => total + weight / common, 0)
  if (sum <= most) return weights.map((weight) => weight / common)
  // What is rounded up to 1 can be one for each, more than its proportion.
  const room = most - weights.length
  return weights.map((weight) => Math.max(1, Math.floor((weight / common / sum) * room)))
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}
