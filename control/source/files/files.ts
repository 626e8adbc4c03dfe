/** A folder of manifests as a source, followed live. */

import { type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { type Clock, systemClock } from '../../clock.ts'
import type { Source, SourceListener, SourceProblem } from '../source.ts'
import { changesBetween, emptyFolder, type FolderContents } from './folder.ts'
import { FolderReader } from './reader.ts'
import { type Suspects, Wake, type WakeDelays } from './wake.ts'

/** A change shows well within 100 ms: a writer is given 25 ms of quiet, and 100 ms at the most. */
export const defaultDelays: WakeDelays = { quietMs: 25, lateMs: 100, rescanMs: 10_000 }

/**
 * The manifests (`*.yaml`, `*.yml`, `*.json`) that lie in a folder, not in folders below it. Edits in place, renames
 * over a file, deletions, new files and the swap of a mounted ConfigMap are followed; a writer that wants a file to
 * change in one step writes another one and renames it.
 */
export function filesSource(folder: string, delays = defaultDelays, clock = systemClock): Source {
  return {
    name: `files:${folder}`,
    async start(listener, signal) {
      const path = resolve(folder)
      const why = await whyNoFolder(path)
      if (why !== undefined)
        throw new Error(`--source files:${folder}: ${why}; give a folder of YAML manifests`)
      const watcher = new FolderFollower(path, listener, delays, clock)
      await watcher.lookFirst()
      signal.addEventListener('abort', () => watcher.stop(), { once: true })
      if (signal.aborted) watcher.stop()
      void watcher.follow()
    },
    freshness: () => [],
  }
}

async function whyNoFolder(path: string): Promise<string | undefined> {
  try {
    return (await stat(path)).isDirectory() ? undefined : `${path} is not a folder`
  } catch (error) {
    return textOf(error)
  }
}

/** Looks when something happens, and tells what is different. */
class FolderFollower {
  readonly #path: string
  readonly #listener: SourceListener
  readonly #reader: FolderReader
  readonly #wake: Wake
  #told: FolderContents = emptyFolder
  #watcher: FSWatcher | undefined
  /** Device and inode of the folder that is watched: a folder renamed over it is another one. */
  #watched = ''
  #watchProblems: readonly SourceProblem[] = []
  #synced = false
  #stopped = false

  constructor(path: string, listener: SourceListener, delays: WakeDelays, clock: Clock) {
    this.#path = path
    this.#listener = listener
    this.#reader = new FolderReader(path, clock)
    this.#wake = new Wake(delays, clock)
  }

  /** Resolves after the first look, also if it failed: then a later one tells that all has been listed. */
  async lookFirst(): Promise<void> {
    await this.#look('everything')
  }

  async follow(): Promise<void> {
    while (!this.#stopped) {
      const suspects = await this.#wake.next()
      if (!this.#stopped) await this.#look(suspects)
    }
  }

  stop(): void {
    this.#stopped = true
    this.#watcher?.close()
    this.#wake.stop()
  }

  /** The watch is set before the look, so that nothing falls between them. */
  async #look(suspects: Suspects): Promise<void> {
    try {
      const moved = await this.#watchFolder()
      const look = await this.#reader.look(moved || !this.#synced ? 'everything' : suspects)
      if (this.#stopped) return
      this.#tell(look.contents, [...this.#watchProblems, ...look.contents.problems])
      for (const [file, objects] of look.ignored)
        this.#listener.note(`${file}: not read: ${objects.join(', ')}`)
      if (look.lookAgainMs !== undefined) this.#wake.lookWithin(look.lookAgainMs)
      if (!this.#synced) this.#listener.synced()
      this.#synced = true
    } catch (error) {
      this.#tell(this.#told, [
        this.#problem(`cannot be read: ${textOf(error)}; all objects stay as they were`),
      ])
    }
  }

  #tell(contents: FolderContents, problems: readonly SourceProblem[]): void {
    const changes = changesBetween(this.#told, contents)
    this.#told = contents
    if (changes.length > 0) this.#listener.apply(changes)
    this.#listener.problems(problems)
  }

  /** Whether the folder is another one than was watched. Without a watch, the looks at everything have to do. */
  async #watchFolder(): Promise<boolean> {
    const { dev, ino } = await stat(this.#path, { bigint: true })
    const identity = `${dev} ${ino}`
    if (identity === this.#watched || this.#stopped) return false
    this.#watcher?.close()
    this.#watched = ''
    try {
      this.#watcher = watch(this.#path, (_, name) => {
        // Under its own name the folder itself has been moved or removed.
        this.#wake.notice(name === null || name === basename(this.#path) ? undefined : name)
      })
      this.#watcher.on('error', () => {
        this.#watched = ''
      })
      this.#watched = identity
      this.#watchProblems = []
    } catch (error) {
      this.#watchProblems = [
        this.#problem(`cannot be watched: ${textOf(error)}; it is looked at now and then`),
      ]
    }
    return true
  }

  #problem(message: string): SourceProblem {
    return { object: `Folder ${this.#path}`, field: '', message, place: this.#path }
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
