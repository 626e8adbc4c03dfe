import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const PASSED_OVER = new Set(['node_modules', 'build', '.git'])

function pages(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return PASSED_OVER.has(entry.name) ? [] : pages(path)
    return entry.name.endsWith('.md') ? [path] : []
  })
}

/** The name GitHub gives a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{Letter}\p{Number}\s-]/gu, '')
    .trim()
    .replace(/\s/g, '-')
}

function anchors(page: string): Set<string> {
  const headings = readFileSync(page, 'utf8').matchAll(/^#+ (.+)$/gm)
  return new Set([...headings].map((match) => anchorOf(match[1] ?? '')))
}

test('every link between pages and files leads somewhere', () => {
  const broken: string[] = []
  for (const page of pages(ROOT)) {
    const text = readFileSync(page, 'utf8').replace(/```[\s\S]*?```/g, '')
    for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : join(dirname(page), path)
      const isThere = existsSync(file) && (anchor === undefined || anchors(file).has(anchor))
      if (!isThere) broken.push(`${relative(ROOT, page)}: ${target}`)
    }
  }
  assert.deepEqual(broken, [])
})
