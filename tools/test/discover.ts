/** Which test files there are, and what each kind of them needs. */

import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'

/** Folders that hold other people's code or what was built. */
const PASSED_OVER = new Set(['node_modules', 'build', '.git'])

export interface TestFile {
  /** Relative to the root of the repository. */
  readonly path: string
  /** Named `*.root.test.ts`: makes namespaces or loads programs, and has the machine to itself while it does. */
  readonly needsRoot: boolean
}

/** All test files below a folder, in the order of their paths. */
export function findTestFiles(root: string): TestFile[] {
  return walk(root)
    .map((path) => relative(root, path))
    .filter((path) => path.endsWith('.test.ts'))
    .sort()
    .map((path) => ({ path, needsRoot: path.endsWith('.root.test.ts') }))
}

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return PASSED_OVER.has(entry.name) ? [] : walk(path)
    return entry.isFile() ? [path] : []
  })
}

/** The files whose path contains one of the filters; all of them when there is no filter. A leading `./` is nothing. */
export function selectTestFiles(files: readonly TestFile[], filters: readonly string[]): TestFile[] {
  if (filters.length === 0) return [...files]
  const wanted = filters.map((filter) => filter.replace(/^\.\//, ''))
  return files.filter((file) => wanted.some((part) => file.path.includes(part)))
}
