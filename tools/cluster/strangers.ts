/** Somebody else's programs on the devices of a node: they let every packet pass, and nobody after them see one. */

import type { ChildProcess } from 'node:child_process'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { machine } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { NodeMember } from './member.ts'

/** Compiles the program into a folder; resolves with the path of the object. */
export async function compileStranger(folder: string): Promise<string> {
  const object = join(folder, 'stranger.bpf.o')
  const include = `/usr/include/${machine()}-linux-gnu`
  const flags = ['-O2', '-g', '-Wall', '-Werror', '-target', 'bpf', '-mcpu=v3', '-I', include]
  await promisify(execFile)('clang', [
    ...flags,
    '-c',
    join(import.meta.dirname, 'stranger.bpf.c'),
    '-o',
    object,
  ])
  return object
}

export interface StrangerOptions {
  readonly node: NodeMember
  /** The compiled program. */
  readonly object: string
  /** Where in the chains of the devices. */
  readonly at: 'head' | 'tail'
  /** Index of a device, or all but the loopback that there are now. */
  readonly devices: number | 'all'
}

/** Resolves when they are attached. They stay until the process' standard input ends, or it is ended with its node. */
export async function startStrangers({ node, object, at, devices }: StrangerOptions): Promise<ChildProcess> {
  const program = join(import.meta.dirname, 'stranger.ts')
  const child = node.spawn([process.execPath, program, at, object, String(devices)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`somebody else's programs on ${node.name} ended with ${code} before they were attached`)
  })
  ended.catch(() => undefined)
  if (child.stdout !== null) await Promise.race([once(child.stdout, 'data'), ended])
  return child
}
