/** A kernel that refuses bpf(2), for one process and what it starts: a filter of seccomp, set by a program of C. */

import { execFile } from 'node:child_process'
import { constants } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** How it is refused: as by a kernel without it, and as by the profile of many a container. */
export type BpfRefusal = 'ENOSYS' | 'EPERM'

/** Compiles the program into a folder; resolves with the words to begin a command with. */
export async function compileWithoutBpf(
  folder: string,
): Promise<(refusal: BpfRefusal) => readonly [string, string]> {
  const program = join(folder, 'without-bpf')
  const source = join(import.meta.dirname, 'without-bpf.c')
  await promisify(execFile)('clang', ['-O2', '-Wall', '-Werror', source, '-o', program])
  return (refusal) => [program, String(constants.errno[refusal])]
}
