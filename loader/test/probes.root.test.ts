import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import {
  effectiveCapabilities,
  kernelRelease,
  mountsOfType,
  probeBpfSyscall,
  probeHelper,
  probeKernelConstant,
  probeKernelFunction,
  probeMapType,
  probeProgramType,
  probeTcx,
} from '../src/index.ts'
import { compareReleases } from '../src/probe.ts'
import { checkDescriptors, pinFolder, rootOnly } from './kit.ts'

const { release } = kernelRelease()

suite('probes of the running kernel', rootOnly, () => {
  checkDescriptors()

  test('bpf(2) may be used', () => assert.deepEqual(probeBpfSyscall(), { supported: 'yes' }))

  test('program and map types that every kernel in use has', () => {
    for (const type of ['sched_cls', 'xdp', 'cgroup_sock_addr', 'cgroup_sock', 'syscall'] as const) {
      assert.deepEqual(probeProgramType(type), { supported: 'yes' }, type)
    }
    for (const type of [
      'hash',
      'array',
      'lru_hash',
      'percpu_array',
      'lpm_trie',
      'prog_array',
      'ringbuf',
    ] as const) {
      assert.deepEqual(probeMapType(type), { supported: 'yes' }, type)
    }
  })

  test('a function of the kernel, and one that no kernel has', () => {
    // A program that is called when a BPF object is told apart: every kernel with kfuncs names it.
    assert.deepEqual(probeKernelFunction('bpf_prog_load', 'nf_conntrack'), { supported: 'yes' })
    const answer = probeKernelFunction('bpf_no_such_function', 'no_such_module')
    assert.equal(answer.supported, 'no')
  })

  test('a constant for programs, and one that no kernel has', () => {
    assert.deepEqual(probeKernelConstant('BPF_F_PSEUDO_HDR'), { supported: 'yes' })
    assert.equal(probeKernelConstant('BPF_F_NO_SUCH').supported, 'no')
  })

  test('tcx, from 6.6 on', () => {
    assert.equal(probeTcx().supported, compareReleases(release, '6.6') >= 0 ? 'yes' : 'no')
  })

  test('a helper, from its kernel on', () => {
    assert.deepEqual(probeHelper('sched_cls', 'fib_lookup'), { supported: 'yes' })
    assert.deepEqual(probeHelper('syscall', 'for_each_map_elem'), { supported: 'yes' })
    const answer = probeHelper('cgroup_sock_addr', 'set_retval')
    if (compareReleases(release, '5.18') >= 0) assert.deepEqual(answer, { supported: 'yes' })
    else assert.equal(answer.supported === 'no' && answer.since, '5.18')
  })

  test('a helper that programs of a type may not call, without a kernel to wait for', () => {
    assert.deepEqual(probeHelper('xdp', 'redirect_peer'), {
      supported: 'no',
      reason: 'the kernel does not have the helper bpf_redirect_peer in programs of type xdp',
    })
  })

  test('types that need a target are unknown', () => {
    assert.equal(probeProgramType('lsm').supported, 'unknown')
  })

  test('capabilities and mounts of this process', () => {
    using _folder = pinFolder('probe')
    assert.ok(effectiveCapabilities().includes('NET_ADMIN'))
    assert.ok(mountsOfType('bpf').some(({ path }) => path === '/sys/fs/bpf'))
  })
})
