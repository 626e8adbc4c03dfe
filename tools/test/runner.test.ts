import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify, stripVTControlCharacters } from 'node:util'
import { findTestFiles, selectTestFiles } from './discover.ts'
import { newSince } from './leftovers.ts'
import type { Result } from './results.ts'
import { casesIn, casesLines, closingLine, detailLines, resultLine } from './results.ts'

test('test files are found by name, not below node_modules or build', () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-discover-'))
  try {
    const paths = [
      'b/x.test.ts',
      'a/y.root.test.ts',
      'a/y.ts',
      'build/z.test.ts',
      'b/node_modules/q/q.test.ts',
    ]
    for (const path of paths) {
      mkdirSync(join(root, path, '..'), { recursive: true })
      writeFileSync(join(root, path), '')
    }
    const files = findTestFiles(root)
    assert.deepEqual(files, [
      { path: 'a/y.root.test.ts', needsRoot: true },
      { path: 'b/x.test.ts', needsRoot: false },
    ])
    assert.deepEqual(selectTestFiles(files, ['./b/']), [files[1]])
    assert.deepEqual(selectTestFiles(files, []), files)
  } finally {
    rmSync(root, { recursive: true })
  }
})

const result: Result = {
  subject: 'control/a.test.ts',
  passed: 2,
  failures: [{ name: ['suite', 'case'], details: 'AssertionError: 1 != 2' }],
  skips: [{ name: ['other'], reason: 'needs SCTP' }],
  seconds: 0.26,
  output: 'printed\n',
}

test('a file is one line, a failure is told in full, a skip with its reason, the counts close', () => {
  assert.match(
    stripVTControlCharacters(resultLine(result)),
    /^✘ control\/a\.test\.ts +0\.3 s {2}2 passed, 1 failed, 1 skipped$/,
  )
  const details = stripVTControlCharacters(detailLines([result]).join('\n'))
  assert.match(details, /✘ control\/a\.test\.ts › suite › case\n {4}AssertionError: 1 != 2/)
  assert.match(details, /printed \(1 of 1 lines\):\n {4}printed/)
  assert.match(details, /− control\/a\.test\.ts › other: needs SCTP/)
  assert.equal(closingLine([result, result]), '4 passed, 2 failed, 2 skipped')
  assert.equal(closingLine([]), '0 passed, 0 failed, 0 skipped')
  assert.deepEqual(casesLines([result]), [])
  assert.match(
    casesLines([
      { ...result, cases: ['B46', 'B09'] },
      { ...result, cases: ['B46'] },
    ])[1] ?? '',
    /: B09 B46$/,
  )
  assert.deepEqual(casesIn('B45 B46 a daemon starts; B1 and AB47 are no ids'), ['B45', 'B46'])
})

test('new things are leftovers unless their owner is still at work', () => {
  const before = new Set(['network namespace old'])
  const after = new Set([
    'network namespace old',
    'network namespace slt12-n1',
    'pin /sys/fs/bpf/slt34n1/map',
    'pin /sys/fs/bpf/x',
  ])
  assert.deepEqual(
    newSince(before, after, (pid) => pid === 34),
    ['network namespace slt12-n1', 'pin /sys/fs/bpf/x'],
  )
  assert.deepEqual(newSince(after, before), [])
})

/** Runs a test file of this text through `runFile`, in a process that is not itself a test. */
async function runText(text: string): Promise<Result> {
  const root = mkdtempSync(join(tmpdir(), 'sluice-run-'))
  try {
    writeFileSync(join(root, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(root, 'one.test.ts'), text)
    const script = join(root, 'script.ts')
    writeFileSync(
      script,
      `import { runFile } from ${JSON.stringify(join(import.meta.dirname, 'run-file.ts'))}
      console.log(JSON.stringify(await runFile(${JSON.stringify(root)}, 'one.test.ts')))`,
    )
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const { stdout } = await promisify(execFile)(process.execPath, [script], { env })
    return JSON.parse(stdout)
  } finally {
    rmSync(root, { recursive: true })
  }
}

test('a file is run and every test of it counted once, with the names around it', async () => {
  const ran = await runText(`
    import { describe, test } from 'node:test'
    import assert from 'node:assert/strict'
    describe('suite', () => {
      test('good', () => {})
      test('bad', () => { console.log('a word'); assert.equal(1, 2) })
      test('later', { skip: 'no such device' }, () => {})
    })
    test('parent', async (t) => { await t.test('child', () => { throw new Error('broken') }) })
  `)
  assert.equal(ran.passed, 1)
  assert.deepEqual(
    ran.failures.map((failure) => failure.name),
    [
      ['suite', 'bad'],
      ['parent', 'child'],
    ],
  )
  assert.match(ran.failures[0]?.details ?? '', /one\.test\.ts:6/)
  assert.match(ran.failures[1]?.details ?? '', /broken/)
  assert.deepEqual(ran.skips, [{ name: ['suite', 'later'], reason: 'no such device' }])
  assert.match(ran.output, /a word/)
})

test('a file that crashes or holds no test has failed', async () => {
  const crashed = await runText(`throw new Error('at import')`)
  assert.equal(crashed.passed, 0)
  assert.equal(crashed.failures.length, 1)
  const empty = await runText(`export const nothing = 1`)
  assert.equal(empty.failures.length, 1, JSON.stringify(empty))
})
