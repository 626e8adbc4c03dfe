import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readKernels } from './kernels.ts'
import { parseOptions } from './options.ts'

const KERNELS = readKernels()
const parse = (text: string) =>
  parseOptions(
    text.split(' ').filter((word) => word !== ''),
    KERNELS,
  )

test('a kernel, with or without bpf(2), and a command behind --', () => {
  const plain = parse('6.1')
  assert.ok(plain.what === 'one')
  assert.deepEqual([plain.kernel.name, plain.command], ['6.1', undefined])
  const command = parse('6.12 --no-bpf -- uname -r')
  assert.ok(command.what === 'one')
  assert.deepEqual([command.kernel.withoutBpf, command.kernel.dataplane], [true, 'iptables'])
  assert.equal(command.command, 'uname -r')
  const known = parse('5.10 --no-bpf')
  assert.ok(known.what === 'one')
  assert.equal(known.kernel.name, '5.10 --no-bpf', 'the one of the matrix')
})

test('all of them, and whether the page is written', () => {
  assert.deepEqual(parse('all'), { what: 'all', write: false })
  assert.deepEqual(parse('all --write'), { what: 'all', write: true })
})

test('what makes no sense is refused in one line', () => {
  const rows: [string, RegExp][] = [
    ['', /which kernel/],
    ['4.19', /4\.19: no such kernel; there are 5\.10, /],
    ['6.1 uname', /uname: a command stands behind --/],
    ['6.1 --', /no command behind --/],
    ['6.1 --write', /--write: 6\.1 does not take it/],
    ['all --no-bpf', /--no-bpf: all does not take it/],
    ['uml-6.12 --no-bpf', /goes with kernels of QEMU/],
    ['all -- true', /on one kernel, not on all/],
  ]
  for (const [text, error] of rows) assert.throws(() => parse(text), error, text)
})
