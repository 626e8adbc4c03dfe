/** The soak's command line. Pure. */

import { parseArgs } from 'node:util'

export interface SoakOptions {
  readonly seconds: number
  readonly seed: number
}

export const USAGE = `usage: npm run soak -- source [OPTION …]

Runs the Kubernetes source against an API server that misbehaves at random while objects change, and looks again and
again whether what comes out is what the server holds, and whether memory stays flat.

  --minutes N   for so long (default 10)
  --seconds N   the same in seconds
  --seed N      the same troubles in the same order as a run before (default: another one each time)
`

/** Throws an error that says what the arguments should be. */
export function parseOptions(args: readonly string[], anySeed: number): SoakOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { minutes: { type: 'string' }, seconds: { type: 'string' }, seed: { type: 'string' } },
  })
  if (positionals.join() !== 'source') throw new Error('it takes what to soak: source')
  const seconds =
    values.seconds === undefined
      ? number('minutes', values.minutes ?? '10') * 60
      : number('seconds', values.seconds)
  return { seconds, seed: values.seed === undefined ? anySeed : number('seed', values.seed) }
}

function number(name: string, text: string): number {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new Error(`--${name} ${text}: takes a number`)
  return Number(text)
}
