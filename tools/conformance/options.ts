/** The command line of `npm run conformance`. Pure. */

import { parseArgs } from 'node:util'
import { ROWS_BY_ID } from './instances.ts'
import type { ClientAddress } from './judge.ts'
import { FAULTS, type Fault } from './model/faults.ts'
import type { RowFamily } from './types.ts'

export interface Options {
  readonly dataplane: 'bpf' | 'iptables' | 'model'
  readonly families: readonly RowFamily[]
  /** Undefined: all. */
  readonly only: ReadonlySet<string> | undefined
  readonly json: boolean
  readonly fault: Fault | undefined
  readonly clientAddress: ClientAddress
}

export const USAGE = `usage: npm run conformance -- [options]

  --dataplane bpf|iptables|model
                               what is compared with the table (default bpf; but for the model it needs root)
  --family 4|6|both            IP families (default both)
  --only ID[,ID...]            only these rows; a beginning with * stands for all that begin so: TERM-*
  --client-address HOW         preserve (default): a client's address may be kept where kube-proxy masquerades;
                               kube-proxy: never; nothing else with --dataplane iptables
  --fault NAME                 with --dataplane model: break a rule, which must make rows fail:
                               ${FAULTS.map(({ name }) => name).join('\n                               ')}
  --json                       print {passed, failed, skipped, notApplicable, rows, deviations}`

/** Throws Error with one line for arguments that make no sense. */
export function parseOptions(argv: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      dataplane: { type: 'string', default: 'bpf' },
      family: { type: 'string', default: 'both' },
      only: { type: 'string' },
      json: { type: 'boolean', default: false },
      fault: { type: 'string' },
      'client-address': { type: 'string' },
    },
  })
  const dataplane = oneOf('--dataplane', values.dataplane, ['bpf', 'iptables', 'model'] as const)
  const family = oneOf('--family', values.family, ['4', '6', 'both'] as const)
  return {
    dataplane,
    families: family === 'both' ? [4, 6] : [family === '4' ? 4 : 6],
    only: values.only === undefined ? undefined : selected(values.only),
    json: values.json,
    fault: faultNamed(values.fault, dataplane),
    clientAddress: clientAddressFor(dataplane, values['client-address']),
  }
}

function oneOf<T extends string>(option: string, value: string, words: readonly T[]): T {
  const word = words.find((each) => each === value)
  if (word === undefined) throw new Error(`${option} takes ${words.join(', ')}, not ${value}`)
  return word
}

/** Rules of iptables masquerade as kube-proxy does: nobody knows there by which way an answer comes back. */
function clientAddressFor(dataplane: Options['dataplane'], word: string | undefined): ClientAddress {
  const usual = dataplane === 'iptables' ? 'kube-proxy' : 'preserve'
  const how = oneOf('--client-address', word ?? usual, ['preserve', 'kube-proxy'] as const)
  if (dataplane === 'iptables' && how === 'preserve') {
    throw new Error('--client-address preserve does not go with --dataplane iptables')
  }
  return how
}

function selected(text: string): ReadonlySet<string> {
  const ids = [...ROWS_BY_ID.keys()]
  return new Set(
    text.split(',').flatMap((word) => {
      const found = word.endsWith('*')
        ? ids.filter((id) => id.startsWith(word.slice(0, -1)))
        : ids.filter((id) => id === word)
      if (found.length === 0) throw new Error(`--only: the table has no row ${word}`)
      return found
    }),
  )
}

function faultNamed(name: string | undefined, dataplane: Options['dataplane']): Fault | undefined {
  if (name === undefined) return undefined
  const fault = FAULTS.find((each) => each.name === name)
  if (fault === undefined) throw new Error(`--fault takes ${FAULTS.map((each) => each.name).join(', ')}`)
  if (dataplane !== 'model') throw new Error('--fault goes with --dataplane model')
  return fault
}
