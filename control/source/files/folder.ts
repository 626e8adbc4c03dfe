/** The manifests of a folder together, and what changed from one state of it to the next. Pure. */

import type { Change, SourceProblem } from '../source.ts'
import { addObject, type Manifest, type PlacedObject } from './manifest.ts'

/** What all files hold together. */
export interface FolderContents {
  readonly objects: ReadonlyMap<string, PlacedObject>
  readonly problems: readonly SourceProblem[]
}

/** A folder without files. */
export const emptyFolder: FolderContents = { objects: new Map(), problems: [] }

/** Puts the files together, in the order of their names: of an object in two files, that of the first one counts. */
export function mergeManifests(manifests: ReadonlyMap<string, Manifest>): FolderContents {
  const objects = new Map<string, PlacedObject>()
  const problems: SourceProblem[] = []
  const byName = [...manifests].sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [, manifest] of byName) {
    problems.push(...manifest.problems)
    for (const [id, placed] of manifest.objects) addObject(objects, problems, id, placed)
  }
  return { objects, problems }
}

/** The changes that lead from one state to the other. An object that was not read again is known by its identity. */
export function changesBetween(before: FolderContents, after: FolderContents): readonly Change[] {
  const changes: Change[] = []
  for (const [id, { change }] of after.objects) {
    if (before.objects.get(id)?.change !== change) changes.push(change)
  }
  for (const [id, { change }] of before.objects) {
    if (!after.objects.has(id)) changes.push({ kind: change.kind, key: change.key, object: undefined })
  }
  return changes
}

/**
 * Whether a file of that name is read. Names that begin with a dot are those of editors' temporary files and of a
 * mounted ConfigMap's own bookkeeping.
 */
export function isManifestName(name: string): boolean {
  return !name.startsWith('.') && /\.(yaml|yml|json)$/.test(name)
}
