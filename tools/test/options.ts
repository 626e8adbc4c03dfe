/** The command line of the runner. Pure. */

import { parseArgs } from 'node:util'

export interface RunOptions {
  /** Only files with one of these in their path; none: all files and all checks. */
  readonly filters: readonly string[]
  /** Without the tests that have one of these in their name. */
  readonly except: readonly string[]
  /** The quick part of the kernels' matrix too. */
  readonly kernels: boolean
}

export const USAGE = `usage: npm test [-- OPTION…]      or: node tools/test/main.ts [PART OF A PATH…] [OPTION…]

  PART OF A PATH    only the test files that have it in their path, and no checks
  --except WORD     leave out tests with this in their name; may be given several times
  --kernels         also boot other kernels, and do there what test-vm/kernels.json calls quick`

/** Throws Error with one line for arguments that make no sense. */
export function parseOptions(argv: readonly string[]): RunOptions {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      except: { type: 'string', multiple: true, default: [] },
      kernels: { type: 'boolean', default: false },
    },
  })
  return { filters: positionals, except: values.except, kernels: values.kernels }
}
