/** Reads the files of a folder: only those that may have changed, and none that is about to be written. */

import type { BigIntStats } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../clock.ts'
import type { SourceProblem } from '../source.ts'
import { type FolderContents, isManifestName, mergeManifests } from './folder.ts'
import { emptyManifest, type Manifest, readManifest } from './manifest.ts'
import type { Suspects } from './wake.ts'

/** A file as it was when it was read. */
interface KnownFile {
  /** What `stat` said before the reading; a file that was written meanwhile differs at the next look. */
  readonly fingerprint: string
  readonly manifest: Manifest
  /** Time of the first look at which it was empty though it had objects before; undefined if it is not so. */
  readonly emptySinceMs: number | undefined
}

/** What a look at the folder found. */
export interface Look {
  readonly contents: FolderContents
  /** Objects of kinds that are not read, by file; only of files that were read now. */
  readonly ignored: ReadonlyMap<string, readonly string[]>
  /** An empty file is given some time to be filled: look again after so many milliseconds. */
  readonly lookAgainMs: number | undefined
}

/**
 * So long an empty file keeps the objects it had: `kubectl get … > web.yaml` empties the file a second before it
 * fills it, and that must not stop any traffic.
 */
const EMPTY_GRACE_MS = 2_000

/** Files that are read at the same time. */
const PARALLEL = 16

/** What is known of a folder, kept up by looks at it. Not for two looks at once. */
export class FolderReader {
  readonly #folder: string
  readonly #clock: Clock
  #files = new Map<string, KnownFile>()
  #unreadable = new Map<string, SourceProblem>()

  constructor(folder: string, clock: Clock) {
    this.#folder = folder
    this.#clock = clock
  }

  /**
   * Looks at the suspects, or at everything; a file whose `stat` is as it was is read only if it is a suspect by name.
   * Rejects if the folder cannot be listed; what was known stays.
   */
  async look(suspects: Suspects): Promise<Look> {
    const names = (await readdir(this.#folder)).filter(isManifestName)
    const present = new Set(names)
    for (const name of [...this.#files.keys(), ...this.#unreadable.keys()]) {
      if (!present.has(name)) this.#forget(name)
    }
    const ignored = new Map<string, readonly string[]>()
    const looked = names.filter(
      (name) => suspects === 'everything' || suspects.has(name) || this.#isEmptied(name),
    )
    for (let i = 0; i < looked.length; i += PARALLEL) {
      await Promise.all(
        looked.slice(i, i + PARALLEL).map(async (name) => {
          const read = await this.#readIfChanged(name, suspects !== 'everything')
          if (read !== undefined && read.ignored.length > 0) ignored.set(name, read.ignored)
        }),
      )
    }
    return { contents: this.#contents(), ignored, lookAgainMs: this.#lookAgainMs() }
  }

  #contents(): FolderContents {
    const merged = mergeManifests(
      new Map(Array.from(this.#files, ([name, { manifest }]) => [name, manifest])),
    )
    const unreadable = [...this.#unreadable]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, problem]) => problem)
    return { objects: merged.objects, problems: [...unreadable, ...merged.problems] }
  }

  #lookAgainMs(): number | undefined {
    const since = [...this.#files.values()].flatMap(({ emptySinceMs }) => emptySinceMs ?? [])
    return since.length === 0
      ? undefined
      : Math.ceil(Math.min(...since) + EMPTY_GRACE_MS - this.#clock.nowMs()) + 1
  }

  #isEmptied(name: string): boolean {
    return this.#files.get(name)?.emptySinceMs !== undefined
  }

  /** The manifest if it was read. */
  async #readIfChanged(name: string, always: boolean): Promise<Manifest | undefined> {
    const path = join(this.#folder, name)
    const known = this.#files.get(name)
    try {
      const stats = await stat(path, { bigint: true })
      if (!stats.isFile()) {
        this.#forget(name)
        return undefined
      }
      const fingerprint = fingerprintOf(stats)
      if (!always && known?.fingerprint === fingerprint && known.emptySinceMs === undefined) return undefined
      const text = await readFile(path, 'utf8')
      this.#unreadable.delete(name)
      return this.#keep(name, fingerprint, text, known)
    } catch (error) {
      if (isErrno(error) && error.code === 'ENOENT') {
        this.#forget(name)
        return undefined
      }
      const message = `cannot be read: ${error instanceof Error ? error.message : error}; its objects stay as they were`
      this.#unreadable.set(name, { object: `File ${name}`, field: '', message, place: name })
      return undefined
    }
  }

  #keep(name: string, fingerprint: string, text: string, known: KnownFile | undefined): Manifest | undefined {
    if (known !== undefined && known.manifest.objects.size > 0 && text.trim() === '') {
      const now = this.#clock.nowMs()
      const since = known.emptySinceMs ?? now
      if (now - since < EMPTY_GRACE_MS) {
        this.#files.set(name, { ...known, fingerprint, emptySinceMs: since })
        return undefined
      }
    }
    const manifest = readManifest(name, text, known?.manifest ?? emptyManifest)
    this.#files.set(name, { fingerprint, manifest, emptySinceMs: undefined })
    return manifest
  }

  #forget(name: string): void {
    this.#files.delete(name)
    this.#unreadable.delete(name)
  }
}

/** Follows symbolic links, so that a link that points elsewhere is another file. */
function fingerprintOf(stats: BigIntStats): string {
  return [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ')
}

function isErrno(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'code' in error
}
