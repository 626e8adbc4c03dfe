import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseKernels, readKernels } from './kernels.ts'

const entry = {
  name: '6.1',
  suite: 'bookworm-security',
  release: '6.1',
  dataplane: 'bpf by clsact',
  has: ['bpf(2)', '@more'],
  checks: ['features', 'loads'],
  quickChecks: ['loads'],
}
const features = { more: ['veth devices'] }
const file = (change: object): unknown => ({ features, kernels: [{ ...entry, ...change }] })

test('a kernel has its features and those of the groups it names', () => {
  const [kernel] = parseKernels(file({}))
  assert.deepEqual([...(kernel?.has ?? [])], ['bpf(2)', 'veth devices'])
  assert.deepEqual([kernel?.withoutBpf, kernel?.userMode, kernel?.because], [false, false, ''])
  assert.equal(parseKernels(file({ suite: undefined }))[0]?.suite, undefined, 'none has it')
})

test('a file that makes no sense is refused, by kernel and field', () => {
  const rows: [object, RegExp][] = [
    [{ dataplane: 'xdp' }, /^Error: kernel 6\.1: dataplane: takes bpf by tcx, .*, not "xdp"$/],
    [{ has: ['@less'] }, /^Error: kernel 6\.1: has: there is no group @less$/],
    [{ checks: ['speed'] }, /^Error: kernel 6\.1: checks: takes features, loads, /],
    [{ quickChecks: ['demo'] }, /^Error: kernel 6\.1: quickChecks: takes features, loads, not "demo"$/],
    [{ dataplane: 'iptables' }, /^Error: kernel 6\.1: because: belongs to iptables, and iptables needs it$/],
    [{ because: 'tcx' }, /^Error: kernel 6\.1: because: belongs to iptables/],
    [{ smp: 2 }, /^Error: kernel 6\.1: smp: there is no such field$/],
    [{ suite: '' }, /^Error: kernel 6\.1: suite: has to be text$/],
  ]
  for (const [change, error] of rows) assert.throws(() => parseKernels(file(change)), error)
  assert.throws(() => parseKernels({ features, kernels: [entry, entry] }), /two kernels are called 6\.1/)
  assert.throws(() => parseKernels([]), /the file: has to be an object/)
})

test('the matrix: from 5.15 up every program is loaded, below and without bpf(2) iptables serves', () => {
  const kernels = readKernels()
  for (const { name, dataplane, checks, quickChecks } of kernels) {
    assert.ok(checks.includes(dataplane === 'iptables' ? 'fallback' : 'loads'), name)
    for (const check of quickChecks) assert.ok(checks.includes(check), `${name}, ${check}`)
  }
  const quick = kernels.flatMap(({ quickChecks }) => quickChecks)
  assert.ok(quick.includes('loads'))
})
