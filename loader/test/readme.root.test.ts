/** Runs the examples of the README, each in a network namespace of its own, and compares what they print. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, suite, test } from 'node:test'
import { compileFile, pinFolder, rootOnly } from './kit.ts'

const PACKAGE = path.join(import.meta.dirname, '..')
const readme = readFileSync(path.join(PACKAGE, 'README.md'), 'utf8')

function blocksOf(language: string): string[] {
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, code = '']) => code,
  )
}

/** What the comments behind an arrow say will be printed. */
function promised(code: string): string[] {
  return [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, text = '']) => text)
}

suite('examples of the README', rootOnly, () => {
  // Inside of the package, so that they find it by its name.
  const folder = mkdtempSync(path.join(PACKAGE, '.examples-'))
  after(() => rmSync(folder, { recursive: true }))

  const [source] = blocksOf('c')
  assert.ok(source !== undefined)
  writeFileSync(path.join(folder, 'counter.bpf.c'), source)
  compileFile(path.join(folder, 'counter.bpf.c'), path.join(folder, 'counter.bpf.o'))

  for (const [i, code] of blocksOf('ts').entries()) {
    test(`example ${i + 1}: ${/^import .*$/m.exec(code)?.[0]}`, () => {
      using pins = pinFolder(`readme${i}`)
      const file = path.join(folder, `example${i}.ts`)
      writeFileSync(file, code.replaceAll('/sys/fs/bpf/example', pins.path))
      const printed = execFileSync('unshare', ['--net', process.execPath, file], {
        cwd: folder,
        encoding: 'utf8',
      })
      assert.deepEqual(printed.trimEnd().split('\n'), promised(code))
    })
  }

  test('there are examples, and each promises something', () => {
    const counts = blocksOf('ts').map((code) => promised(code).length)
    assert.ok(counts.length >= 6 && counts.every((count) => count > 0), String(counts))
  })
})
