import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import {
  BatchError,
  BpfError,
  errnoName,
  IncompatibleMapError,
  tellingLine,
  VerifierError,
} from './errors.ts'

suite('the telling line of a verifier log', () => {
  const rows: readonly [title: string, log: string, line: string][] = [
    [
      'the last before the statistics',
      '0: r1\nR1 is bad\nprocessed 2 insns (limit 1000000) x\n',
      'R1 is bad',
    ],
    [
      'without statistics, the last',
      '0: r1\nBPF program is too large. Processed 1000001 insn\n',
      'BPF program is too large. Processed 1000001 insn',
    ],
    [
      'passes over precision tracking',
      'R2 !read_ok\nmark_precise: frame0: last_idx 3\nprocessed 4 insns\n',
      'R2 !read_ok',
    ],
    [
      'passes over timing',
      'R2 !read_ok\nverification time 43 usec\nstack depth 0+8\nprocessed 4 insns\n',
      'R2 !read_ok',
    ],
    ['an empty log', '', 'nothing (the log is empty)'],
  ]
  for (const [title, log, line] of rows) test(title, () => assert.equal(tellingLine(log), line))
})

suite('errors', () => {
  test('name the errno, also the ones of the kernel and of libbpf', () => {
    assert.deepEqual([1, 7, 11, 95, 524, 4001, 999].map(errnoName), [
      'EPERM',
      'E2BIG',
      'EAGAIN',
      'EOPNOTSUPP',
      'ENOTSUPP',
      'LIBBPF_FORMAT',
      'E999',
    ])
  })

  test('say what, on what, and why', () => {
    const error = new BpfError('update', 'map pairs', -7, 'it is full')
    assert.equal(error.message, 'update of map pairs failed: E2BIG: it is full')
    assert.deepEqual([error.code, error.errno, error.errnoName], ['BPF_CALL', 7, 'E2BIG'])
  })

  test('a batch tells how far it came', () => {
    const error = new BatchError('update', 'map pairs', -17, 3, 10)
    assert.match(error.message, /stopped after 3 of 10/)
    assert.equal(error.completed, 3)
  })

  test('a verifier error keeps the log and shows the line', () => {
    const error = new VerifierError('first', -13, 'R1 is bad\nprocessed 2 insns\n')
    assert.equal(error.message, 'load of program first failed: EACCES: the verifier says: R1 is bad')
    assert.equal(error.log, 'R1 is bad\nprocessed 2 insns\n')
    assert.ok(error instanceof BpfError)
  })

  test('an incompatible map lists every field', () => {
    const error = new IncompatibleMapError('flows', '/pin', [
      { field: 'valueSize', pinned: 8, wanted: 16 },
      { field: 'type', pinned: 'hash', wanted: 'array' },
    ])
    assert.match(error.message, /valueSize: pinned 8, wanted 16; type: pinned hash, wanted array/)
  })
})
