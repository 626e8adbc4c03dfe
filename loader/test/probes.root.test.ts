import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import {
  clsactDevices,
  effectiveCapabilities,
  inNewNetworkNamespace,
  kernelRelease,
  mountsOfType,
  probeBatch,
  probeBpfSyscall,
  probeCgroupHook,
  probeClsact,
  probeHelper,
  probeJit,
  probeKernelConstant,
  probeKernelFunction,
  probeKernelTypes,
  probeLinks,
  probeMapType,
  probeProgramType,
  probeTcx,
} from '../src/index.ts'
import { compareReleases } from '../src/release.ts'
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

  test('clsact, which every kernel in use has, without a trace', () => {
    const before = clsactDevices()
    assert.deepEqual(probeClsact(), { supported: 'yes' })
    assert.deepEqual(clsactDevices(), before)
  })

  test('links and hooks of cgroups, and a hook for another type of program', () => {
    assert.deepEqual(probeLinks(), { supported: 'yes' })
    for (const hook of [
      'connect4',
      'sendmsg6',
      'recvmsg4',
      'getpeername6',
      'sock_release',
      'bind4',
    ] as const) {
      assert.deepEqual(probeCgroupHook(hook), { supported: 'yes' }, hook)
    }
  })

  test('batches by type', () => {
    for (const type of ['hash', 'lru_hash', 'array', 'lpm_trie'] as const) {
      assert.deepEqual(probeBatch(type), { supported: 'yes' }, type)
    }
  })

  test('the kernel has types, or says what it was built without; the JIT is on or off', () => {
    const types = probeKernelTypes()
    assert.equal(types.supported, existsSync('/sys/kernel/btf/vmlinux') ? 'yes' : 'no')
    assert.equal(probeKernelTypes('no_such_module').supported, 'no')
    const sysctl = '/proc/sys/net/core/bpf_jit_enable'
    const isOn = existsSync(sysctl) && readFileSync(sysctl, 'utf8').trim() !== '0'
    assert.equal(probeJit().supported, isOn ? 'yes' : 'no')
    // Where the sysctl is not to be seen.
    assert.deepEqual(inNewNetworkNamespace(probeJit), probeJit())
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
