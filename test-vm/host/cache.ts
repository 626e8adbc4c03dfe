/**
 * Where kernels and images are kept from one run to the next: a folder that holds, for each kind of thing, one entry a
 * key. A key says everything the entry was made of, so that an entry is right or absent, never stale.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { MachineError } from './failure.ts'

export type Kind = 'kernels' | 'roots'

/** Of each kind, entries that were used longest ago go. Five kernels of the matrix, with room for a change. */
const KEPT: Readonly<Record<Kind, number>> = { kernels: 12, roots: 2 }

export class Cache {
  readonly folder: string

  constructor(folder: string = process.env['SLUICE_VM_CACHE'] ?? '/var/tmp/sluice-vm') {
    this.folder = folder
    mkdirSync(folder, { recursive: true })
  }

  /** A folder in it that is not an entry: state that is brought up to date in place. */
  place(name: string): string {
    const path = join(this.folder, name)
    mkdirSync(path, { recursive: true })
    return path
  }

  /** The folder of an entry, made by `make` in a folder beside it when it is not there. Call it under `lock`. */
  entry(kind: Kind, key: string, make: (folder: string) => void): string {
    const shelf = this.place(kind)
    const path = join(shelf, key)
    if (!existsSync(path)) {
      const growing = join(shelf, `.${key}`)
      rmSync(growing, { recursive: true, force: true })
      mkdirSync(growing)
      make(growing)
      renameSync(growing, path)
    }
    const now = new Date()
    utimesSync(path, now, now)
    this.#tidy(shelf, KEPT[kind])
    return path
  }

  #tidy(shelf: string, kept: number): void {
    const byAge = readdirSync(shelf)
      .map((name) => ({ path: join(shelf, name), used: statSync(join(shelf, name)).mtimeMs }))
      .sort((one, other) => other.used - one.used)
    for (const { path } of byAge.slice(kept)) rmSync(path, { recursive: true, force: true })
  }

  /** Waits until no other process prepares anything. The lock is flock(2)'s: it goes with the process that holds it. */
  async lock(): Promise<AsyncDisposable> {
    const argv = [join(this.folder, 'lock'), 'sh', '-c', 'echo held; exec cat']
    const holder = spawn('flock', argv, { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = once(holder, 'close')
    ended.catch(() => undefined)
    const held = await Promise.race([once(holder.stdout, 'data').then(() => true), ended.then(() => false)])
    if (!held) throw new MachineError(`cannot lock ${this.folder}`)
    return {
      [Symbol.asyncDispose]: async () => {
        holder.stdin.end()
        await ended
      },
    }
  }
}
