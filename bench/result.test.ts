import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Finding, isMet, resultsJson, textTable, updatePage } from './result.ts'

const findings: Finding[] = [
  { name: 'established TCP flow, ingress', value: 95.438, unit: 'ns', baseline: 28.2, aim: 110 },
  { name: 'connections', value: 0.9341, unit: 'ratio', aim: 0.95, higherIsBetter: true },
  { name: 'resident', value: 1234.5, unit: 'MB' },
]

test('an aim is an upper limit, unless higher is better', () => {
  assert.deepEqual(findings.map(isMet), [true, false, undefined])
})

test('results.json is a list of name, value, unit, and baseline and aim where there are any', () => {
  assert.deepEqual(JSON.parse(resultsJson(findings)), [
    { name: 'established TCP flow, ingress', value: 95.4, unit: 'ns', baseline: 28.2, aim: 110 },
    { name: 'connections', value: 0.934, unit: 'ratio', aim: 0.95 },
    { name: 'resident', value: 1235, unit: 'MB' },
  ])
})

test('the table on a terminal has its numbers right-aligned and says which aims are met', () => {
  assert.equal(
    textTable(findings),
    [
      'what                           measured  unit   beside     aim',
      'established TCP flow, ingress      95.4  ns       28.2   ≤ 110  ✔',
      'connections                       0.934  ratio          ≥ 0.95  ✘',
      'resident                          1,235  MB',
    ].join('\n'),
  )
})

test('the page keeps all but what is between the markers', () => {
  const machine = { kernel: '6.18.1', cpu: 'a CPU', cores: 2, memoryGB: 8, node: 'v24.0.0' }
  const begin = '<!-- measured by `npm run bench`: begin -->'
  const end = '<!-- measured by `npm run bench`: end -->'
  const page = updatePage(`before\n${begin}\nold\n${end}\nafter\n`, findings, machine)
  assert.ok(page.startsWith(`before\n${begin}\n\nLinux 6.18.1, a CPU, 2 cores, 8 GB; Node.js v24.0.0;`))
  assert.ok(page.endsWith(`\n${end}\nafter\n`))
  assert.ok(page.includes('| connections | 0.934 | ratio |  | ≥ 0.95 | ✘ |'))
  assert.ok(!page.includes('old'))
  assert.equal(updatePage(page, findings, machine), page)
  assert.throws(() => updatePage('nothing', findings, machine), /no place for the table/)
})
