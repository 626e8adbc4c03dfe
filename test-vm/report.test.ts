import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { supportPage } from './document.ts'
import { type Kernel, readKernels } from './kernels.ts'
import { closingLine, details, type KernelResult, kernelLine, table } from './report.ts'
import type { Outcome } from './results.ts'
import { judgeFeatures } from './suite/features.ts'

const kernel: Kernel = {
  name: '6.1',
  suite: 'bookworm-security',
  release: '6.1',
  withoutBpf: false,
  userMode: false,
  dataplane: 'bpf by clsact',
  because: '',
  has: new Set(['bpf(2)', 'tc programs']),
  checks: ['features', 'loads'],
  quickChecks: ['loads'],
}
const outcome = (check: Outcome['check'], name: string, result: Outcome['result'], detail = ''): Outcome => {
  return { check, name, result, detail }
}
const { checks } = kernel
const results: readonly KernelResult[] = [
  {
    kernel,
    checks,
    report: {
      release: '6.1.0-57',
      features: ['bpf(2)', 'tc programs'],
      outcomes: [
        outcome('features', 'bpf(2)', 'passed'),
        outcome('loads', 'entry', 'passed'),
        outcome('loads', 'datapath4', 'failed', 'refused\nlast line'),
      ],
    },
    seconds: 41.4,
  },
  { kernel: { ...kernel, name: '5.10' }, checks, report: { unavailable: 'no mirror' }, seconds: 1 },
  { kernel: { ...kernel, name: '6.12' }, checks: ['demo'], report: { broken: 'it went down' }, seconds: 2 },
  {
    kernel: { ...kernel, name: '7.x' },
    checks: ['demo'],
    report: {
      release: '7.3.4',
      features: [],
      outcomes: [outcome('demo', 'npm start', 'passed', '57 checks')],
    },
    seconds: 3,
  },
]

test('the table has a row a kernel, and the last line counts all of it', () => {
  assert.deepEqual(
    table(results)
      .split('\n')
      .map((line) => line.split(/\s{2,}/)),
    [
      [
        'KERNEL',
        'VERSION',
        'FEATURES',
        'LOADS',
        'DEMO',
        'CONFORMANCE',
        'LINKS',
        'IPVS',
        'FALLBACK',
        'DATAPLANE',
      ],
      ['6.1', '6.1.0-57', '1 of 1', '1 of 2', '–', '–', '–', '–', '–', 'bpf by clsact'],
      ['5.10', '-', 'not run', 'not run', '–', '–', '–', '–', '–', 'not run'],
      ['6.12', '-', '–', '–', 'not run', '–', '–', '–', '–', 'not run'],
      ['7.x', '7.3.4', '–', '–', '57 checks', '–', '–', '–', '–', 'bpf by clsact'],
    ],
  )
  assert.equal(closingLine(results), '3 passed, 2 failed, 1 skipped')
})

test('nothing is skipped or fails without a line that says why', () => {
  assert.deepEqual(details(results), [
    '✘ 6.1 › loads › datapath4: refused\n    last line',
    '− 5.10 › features › the kernel: no mirror',
    '✘ 6.12 › demo › the kernel: it went down',
  ])
  assert.match(kernelLine(results[0] as KernelResult), /^✘ 6\.1 +41 s {2}2 passed, 1 failed$/)
  assert.match(kernelLine(results[1] as KernelResult), /^− 5\.10 +1 s {2}0 passed, 1 skipped$/)
})

test('a feature that lacks fails, and so does one that nobody knew of', () => {
  const judged = judgeFeatures(kernel, ['bpf(2)', 'tcx links'])
  assert.deepEqual(
    judged.map(({ name, result }) => [name, result]),
    [
      ['bpf(2)', 'passed'],
      ['tc programs', 'failed'],
      ['tcx links', 'failed'],
    ],
  )
  assert.match(judged[1]?.detail ?? '', /should have it .* does not work/)
  assert.match(judged[2]?.detail ?? '', /does not say so: add it/)
})

/** The page without what differs from one run to the next: rows of tables, the date, counts and reasons. */
function form(page: string): string[] {
  return page
    .split('\n')
    .filter((line) => line !== '' && !/^(?:- |\d+ passed|\|)/.test(line))
    .map((line) => line.replace(/\d{4}-\d\d-\d\d/, 'DATE'))
}

test('docs/kernel-support.md is of the form that a run writes, and has every kernel of the matrix', () => {
  const page = readFileSync(join(import.meta.dirname, '../docs/kernel-support.md'), 'utf8')
  assert.deepEqual(form(page), form(supportPage(results, new Date())))
  for (const { name } of readKernels()) assert.ok(page.includes(`| ${name} |`), name)
  assert.match(page, /^\d+ passed, 0 failed, \d+ skipped\.$/m)
})
