/** The table itself, and the model beside it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ROWS } from './instances.ts'
import { FAULTS } from './model/faults.ts'
import { runModel } from './model/run.ts'
import { parseOptions } from './options.ts'
import { type Report, reportJson, reportText } from './report.ts'
import { SECTIONS } from './rows/index.ts'

const ALL = { rows: ROWS, families: [4, 6], clientAddress: 'preserve' } as const

function failed({ results }: Report): string[] {
  return results.flatMap(({ id, result }) => (result === 'failed' ? [id] : []))
}

describe('the table', () => {
  test('has 359 rows, each once', () => {
    assert.equal(ROWS.length, 359)
    assert.equal(new Set(ROWS.map(({ id }) => id)).size, 359)
  })

  test('has the rows of each section', () => {
    assert.deepEqual(Object.fromEntries(SECTIONS.map(({ section, rows }) => [section, rows.length])), {
      '14.1': 120,
      '14.2': 36,
      '14.3': 10,
      '14.4': 35,
      '14.5': 22,
      '14.6': 20,
      '14.7': 9,
      '14.8': 20,
      '14.9': 10,
      '14.10': 15,
      '14.11': 12,
      '14.12': 18,
      '14.13': 12,
      '14.14': 14,
      '14.15': 6,
    })
  })

  test('has no set-up twice', () => {
    const names = SECTIONS.flatMap(({ setups }) => Object.keys(setups))
    assert.deepEqual(
      names.filter((name, index) => names.indexOf(name) !== index),
      [],
    )
  })

  test('calls exactly these rows a matter of iptables rules', () => {
    assert.deepEqual(
      ROWS.filter(({ kind }) => kind === 'rules').map(({ id }) => id),
      [
        ...['NP-1d', 'NP-2d', 'NP-3d', 'NP-4d', 'NP-5d', 'NP-6d', 'NP-7d', 'NP-13'],
        ...['CT-17', 'CT-18'],
        ...['SYN-01', 'SYN-02', 'SYN-04', 'SYN-05', 'SYN-06', 'SYN-07', 'SYN-08', 'SYN-09', 'SYN-12'],
      ],
    )
  })
})

describe('the model', () => {
  for (const clientAddress of ['preserve', 'kube-proxy'] as const) {
    test(`is as the table has it, clientAddress ${clientAddress}`, async () => {
      const report = await runModel({ ...ALL, clientAddress })
      const reasons = report.results.flatMap((each) =>
        each.result === 'failed' ? [`${each.id}: ${each.reason}`] : [],
      )
      assert.deepEqual(reasons, [])
      assert.ok(report.results.every(({ result }) => result !== 'skipped'))
      if (clientAddress === 'kube-proxy') {
        assert.ok(report.deviations.every(({ why }) => !why.startsWith('clientAddress')))
      }
    })
  }

  test('there are ten faults to seed', () => {
    assert.equal(new Set(FAULTS.map(({ name }) => name)).size, 10)
  })

  for (const fault of FAULTS) {
    test(`with the fault ${fault.name} rows fail: ${fault.says}`, async () => {
      const sound = new Set(failed(await runModel(ALL)))
      const broken = failed(await runModel({ ...ALL, fault })).filter((id) => !sound.has(id))
      assert.ok(broken.length > 0)
    })
  }
})

describe('the command line', () => {
  test('selects rows by their ids', () => {
    const { only, families, dataplane } = parseOptions(['--only', 'NP-8,ETPL-1*', '--family', '6'])
    assert.deepEqual([...(only ?? [])], ['NP-8', 'ETPL-1', 'ETPL-10', 'ETPL-11', 'ETPL-12', 'ETPL-13'])
    assert.deepEqual([families, dataplane], [[6], 'bpf'])
  })

  for (const [argv, message] of [
    [['--only', 'XX-1'], /no row XX-1/],
    [['--family', '5'], /--family takes 4, 6, both/],
    [['--dataplane', 'ipvs'], /--dataplane takes bpf, iptables, model/],
    [['--dataplane', 'model', '--fault', 'nothing'], /--fault takes terminating-never-used/],
    [['--fault', 'hints-ignored'], /goes with --dataplane model/],
    [['--dataplane', 'iptables', '--client-address', 'preserve'], /does not go with --dataplane iptables/],
  ] as const) {
    test(`refuses ${argv.join(' ')}`, () => assert.throws(() => parseOptions(argv), message))
  }
})

test('client addresses: kept unless said otherwise, but never by rules of iptables', () => {
  const how = (...argv: string[]) => parseOptions(argv).clientAddress
  assert.equal(how(), 'preserve')
  assert.equal(how('--client-address', 'kube-proxy'), 'kube-proxy')
  assert.equal(how('--dataplane', 'iptables'), 'kube-proxy')
})

describe('the report', () => {
  const report: Report = {
    results: [
      { id: 'CIP-01', result: 'passed' },
      { id: 'CIP-02', result: 'failed', reason: 'dropped' },
      { id: 'SYN-01', result: 'not applicable', reason: 'text' },
    ],
    deviations: [
      { id: 'CIP-08', kubeProxy: 'not handled', ours: 'refused', why: '13.1' },
      { id: 'CIP-09', kubeProxy: 'not handled', ours: 'refused', why: '13.1' },
    ],
  }

  test('ends with the counts alone', () => {
    const lines = reportText(report, new Map(ROWS.map((row) => [row.id, row]))).split('\n')
    assert.equal(lines.at(-1), '1 passed, 1 failed, 0 skipped')
    assert.ok(lines.includes('  kube-proxy: not handled; here: refused (13.1)'))
    assert.ok(lines.includes('    CIP-08 CIP-09'))
  })

  test('is JSON when asked', () => {
    const read = JSON.parse(reportJson(report))
    assert.deepEqual([read.passed, read.failed, read.skipped, read.notApplicable], [1, 1, 0, 1])
    assert.deepEqual(read.rows[1], { id: 'CIP-02', result: 'failed', reason: 'dropped' })
  })
})
