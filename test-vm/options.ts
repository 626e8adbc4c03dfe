/** The command line of `npm run vm`. Pure. */

import type { Kernel } from './kernels.ts'

export type Options =
  /** Run a command in the guest; without one, the checks of the matrix. */
  | { readonly what: 'one'; readonly kernel: Kernel; readonly command: string | undefined }
  | { readonly what: 'all'; readonly write: boolean }

export const usage = (
  kernels: readonly Kernel[],
): string => `usage: npm run vm -- KERNEL [--no-bpf] [-- COMMAND…]
       npm run vm -- all [--write]

  KERNEL      boots it, with this clone as it is at /srv/sluice, and does there what the matrix says; one of
              ${[...new Set(kernels.map(({ name }) => name.split(' ')[0]))].join(', ')}
  --no-bpf    of a kernel whose bpf(2) returns ENOSYS
  COMMAND     is run in the guest's clone by a shell as root instead; its exit code is that of this command
  all         the whole matrix (test-vm/kernels.json), two kernels at a time
  --write     and writes docs/kernel-support.md of what it saw`

/** Throws Error with one line for arguments that make no sense. */
export function parseOptions(argv: readonly string[], kernels: readonly Kernel[]): Options {
  const end = argv.indexOf('--')
  const own = end < 0 ? argv : argv.slice(0, end)
  const command = end < 0 ? undefined : argv.slice(end + 1).join(' ')
  if (command === '') throw new Error('there is no command behind --')
  const flags = own.filter((word) => word.startsWith('-'))
  const [name, second] = own.filter((word) => !word.startsWith('-'))
  if (name === undefined) throw new Error('which kernel?')
  if (second !== undefined) throw new Error(`${second}: a command stands behind --`)
  const isAll = name === 'all'
  const unknown = flags.find((flag) => flag !== (isAll ? '--write' : '--no-bpf'))
  if (unknown !== undefined) throw new Error(`${unknown}: ${isAll ? 'all' : name} does not take it`)
  if (isAll) {
    if (command !== undefined) throw new Error('a command is run on one kernel, not on all')
    return { what: 'all', write: flags.length > 0 }
  }
  const known = kernels.find((kernel) => kernel.name === name)
  if (known === undefined) {
    throw new Error(`${name}: no such kernel; there are ${kernels.map((each) => each.name).join(', ')}`)
  }
  return { what: 'one', kernel: flags.length > 0 ? withoutBpf(known, kernels) : known, command }
}

/** That of the matrix; for a kernel that has none there, the same kernel with nothing known about it. */
function withoutBpf(kernel: Kernel, kernels: readonly Kernel[]): Kernel {
  if (kernel.userMode) throw new Error('--no-bpf: goes with kernels of QEMU')
  const name = `${kernel.name} --no-bpf`
  const known = kernels.find((each) => each.name === name)
  return (
    known ?? {
      ...kernel,
      name,
      withoutBpf: true,
      dataplane: 'iptables',
      because: 'bpf(2)',
      checks: ['fallback'],
    }
  )
}
