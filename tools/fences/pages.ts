/** The pages of the repository. For the tests of what they say. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')
const PASSED_OVER = new Set(['node_modules', 'build', '.git'])

/** Paths of all pages in Markdown in a folder and below. */
export function pages(folder = ROOT): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return PASSED_OVER.has(entry.name) ? [] : pages(path)
    return entry.name.endsWith('.md') ? [path] : []
  })
}
