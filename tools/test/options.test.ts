import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readKernels } from '../../test-vm/kernels.ts'
import { resultOf } from './kernels.ts'
import { parseOptions } from './options.ts'

test('files by parts of their paths, tests left out by words of their names, kernels when they are asked for', () => {
  assert.deepEqual(parseOptions([]), { filters: [], except: [], kernels: false })
  assert.deepEqual(parseOptions(['bpf', 'loader', '--except', 'tun:', '--except=bond']), {
    filters: ['bpf', 'loader'],
    except: ['tun:', 'bond'],
    kernels: false,
  })
  assert.equal(parseOptions(['--kernels']).kernels, true)
  assert.throws(() => parseOptions(['--kernel']), /--kernel/)
})

test('what a kernel did counts as tests do, and one that cannot be had is a skip with its reason', () => {
  const [kernel] = readKernels()
  assert.ok(kernel !== undefined)
  const ran = resultOf({
    kernel,
    checks: ['loads', 'fallback'],
    report: {
      release: '6.1.0',
      features: [],
      outcomes: [
        { check: 'loads', name: 'entry', result: 'passed', detail: '' },
        { check: 'fallback', name: 'says why', result: 'failed', detail: 'it said nothing' },
      ],
    },
    seconds: 3,
  })
  assert.deepEqual([ran.subject, ran.passed, ran.seconds], [`kernel ${kernel.name}: loads, fallback`, 1, 3])
  assert.deepEqual(ran.failures, [{ name: ['fallback', 'says why'], details: 'it said nothing' }])
  const absent = resultOf({ kernel, checks: ['loads'], report: { unavailable: 'no mirror' }, seconds: 0 })
  assert.deepEqual([absent.passed, absent.failures.length], [0, 0])
  assert.deepEqual(absent.skips, [{ name: ['loads', 'the kernel'], reason: 'no mirror' }])
})
