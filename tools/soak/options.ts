/** The soak's command line. Pure. */

import { parseArgs } from 'node:util'

export interface SoakOptions {
  /** The daemons on the little cluster, under load; or the source of objects alone. */
  readonly what: 'cluster' | 'source'
  readonly seconds: number
  readonly seed: number
  /** Requests a second that are offered to the cluster. */
  readonly rate: number
}

export const USAGE = `usage: npm run soak -- [cluster|source] [OPTION …]

cluster  Loads the little cluster with connections, downloads and datagrams while daemons are killed and upgraded,
         backends rolled out, pods replaced, SYNs forged and the table of flows filled; nothing may be lost. The default.
source   Runs the Kubernetes source against an API server that misbehaves at random while objects change, and looks
         again and again whether what comes out is what the server holds, and whether memory stays flat.

  --minutes N   for so long (default 10)
  --seconds N   the same in seconds
  --seed N      the same trials or troubles in the same order as a run before (default: another one each time)
  --rate N      requests a second that the cluster is offered (default 1000)
`

/** Throws an error that says what the arguments should be. */
export function parseOptions(args: readonly string[], anySeed: number): SoakOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      minutes: { type: 'string' },
      seconds: { type: 'string' },
      seed: { type: 'string' },
      rate: { type: 'string' },
    },
  })
  const [what = 'cluster', ...more] = positionals
  if ((what !== 'cluster' && what !== 'source') || more.length > 0) {
    throw new Error('it takes what to soak: cluster or source')
  }
  const seconds =
    values.seconds === undefined
      ? number('minutes', values.minutes ?? '10') * 60
      : number('seconds', values.seconds)
  return {
    what,
    seconds,
    seed: values.seed === undefined ? anySeed : number('seed', values.seed),
    rate: number('rate', values.rate ?? '1000'),
  }
}

function number(name: string, text: string): number {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new Error(`--${name} ${text}: takes a number`)
  return Number(text)
}
