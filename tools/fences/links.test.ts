import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { pages, ROOT } from './pages.ts'

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
  for (const page of pages()) {
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
