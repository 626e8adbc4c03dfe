/** A folder of manifests as the objects of a server, followed: whoever edits a file edits the cluster. */

import { type FSWatcher, readdirSync, readFileSync, watch } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { parseYaml } from '../../control/source/files/yaml.ts'
import { isJsonObject, type Json, keyOf, kindOf, type Manifest } from './kinds.ts'
import type { ObjectStore } from './objects.ts'

/** A writer gets so much time to end. */
const QUIET_MS = 25

export class ManifestFolder implements Disposable {
  readonly #folder: string
  readonly #objects: ObjectStore
  readonly #complain: (message: string) => void
  readonly #watcher: FSWatcher
  #timer: NodeJS.Timeout | undefined
  /** What was applied, by kind and key. */
  #applied = new Map<string, Manifest>()
  /** By file: an edit of one parses that one. */
  #files: ReadonlyMap<string, ParsedFile> = new Map()

  /** Applies the folder, and goes on to follow it. A file that is no manifest is complained of, and changes nothing. */
  constructor(folder: string, objects: ObjectStore, complain: (message: string) => void) {
    this.#folder = folder
    this.#objects = objects
    this.#complain = complain
    this.#watcher = watch(folder, () => {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#apply(), QUIET_MS)
    })
    this.#apply()
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#watcher.close()
  }

  #apply(): void {
    try {
      this.#files = readFiles(this.#folder, this.#files)
      const manifests = [...this.#files.values()].flatMap((file) => file.manifests)
      const wanted = new Map(manifests.map((manifest) => [idOf(manifest), manifest]))
      for (const [id, manifest] of wanted) {
        if (!isDeepStrictEqual(this.#applied.get(id), manifest)) this.#objects.put(manifest)
      }
      for (const [id, manifest] of this.#applied) {
        if (!wanted.has(id)) this.#objects.delete(kindOf(manifest).resource, keyIn(manifest))
      }
      this.#applied = wanted
    } catch (error) {
      this.#complain(error instanceof Error ? error.message : String(error))
    }
  }
}

/** All objects of the YAML files of a folder. Throws Error that names the file. */
export function readFolder(folder: string): Manifest[] {
  return [...readFiles(folder, new Map()).values()].flatMap(({ manifests }) => manifests)
}

interface ParsedFile {
  readonly text: string
  readonly manifests: readonly Manifest[]
}

/** Files whose text is as before are not parsed again. */
function readFiles(folder: string, before: ReadonlyMap<string, ParsedFile>): ReadonlyMap<string, ParsedFile> {
  const names = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name))
  return new Map(
    names.sort().map((name) => {
      const text = readFileSync(join(folder, name), 'utf8')
      const held = before.get(name)
      return [name, held?.text === text ? held : { text, manifests: readManifests(name, text) }]
    }),
  )
}

function readManifests(file: string, text: string): Manifest[] {
  return text.split(/^---\s*$/m).flatMap((part) => {
    const parsed = parseYaml(part)
    if ('syntax' in parsed) throw new Error(`${file}: ${parsed.syntax.message}`)
    const value = parsed.value as Json | undefined
    if (value === null || value === undefined) return []
    if (!isManifest(value)) throw new Error(`${file}: holds something that is no object of the API`)
    kindOf(value)
    return [value]
  })
}

function isManifest(value: Json): value is Manifest {
  if (!isJsonObject(value)) return false
  const { apiVersion, kind, metadata } = value
  return (
    typeof apiVersion === 'string' &&
    typeof kind === 'string' &&
    isJsonObject(metadata) &&
    typeof metadata['name'] === 'string'
  )
}

function idOf(manifest: Manifest): string {
  return `${kindOf(manifest).resource} ${keyIn(manifest)}`
}

function keyIn(manifest: Manifest): string {
  const { name, namespace = 'default' } = manifest.metadata
  return keyOf({ metadata: kindOf(manifest).namespaced ? { name, namespace } : { name } })
}
