/** Sends made-up datagrams from a member of the cluster: a program of C, since Node.js has no raw sockets. */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Member } from '../cluster/index.ts'
import { ETHERNET_HEADER } from '../packets/build.ts'

export interface Injector extends Disposable {
  /** In their order. The frames are those of `tools/packets`; their Ethernet headers are left out. */
  send(member: Member, frames: readonly Uint8Array[]): Promise<void>
}

/** Needs clang. Throws when it does not compile the program. */
export function createInjector(): Injector {
  const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-inject-`))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  const program = join(folder, 'inject')
  try {
    execFileSync('clang', ['-O2', '-Wall', '-Werror', join(import.meta.dirname, 'inject.c'), '-o', program])
  } catch (error) {
    remove()
    throw error
  }
  return {
    async send(member, frames) {
      const lines = frames.map((frame) => Buffer.from(frame.subarray(ETHERNET_HEADER)).toString('hex'))
      await member.exec([program], { input: `${lines.join('\n')}\n` })
    },
    [Symbol.dispose]: remove,
  }
}
