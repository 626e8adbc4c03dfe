import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { capabilityNames, netnsCookie, parseMountInfo } from './process.ts'
import { compareReleases, kernelRelease } from './release.ts'

suite('the process', () => {
  test('mounts, with optional fields and escaped paths', () => {
    const text = [
      '25 30 0:23 / /sys/fs/bpf rw,nosuid shared:5 - bpf bpf rw,mode=700',
      String.raw`31 25 0:26 /kubelet /run/my\040cgroup rw - cgroup2 cgroup2 rw`,
      '',
    ].join('\n')
    assert.deepEqual(parseMountInfo(text), [
      { path: '/sys/fs/bpf', root: '/', type: 'bpf' },
      { path: '/run/my cgroup', root: '/kubelet', type: 'cgroup2' },
    ])
  })

  test('capabilities by name', () => {
    assert.deepEqual(capabilityNames((1n << 12n) | (1n << 38n) | (1n << 39n)), [
      'NET_ADMIN',
      'PERFMON',
      'BPF',
    ])
    assert.deepEqual(capabilityNames(1n << 60n), ['60'])
    assert.deepEqual(capabilityNames(0n), [])
  })

  test('releases compare by major and minor', () => {
    assert.ok(compareReleases('5.15.0-1-amd64', '6.6') < 0)
    assert.ok(compareReleases('6.10.3', '6.6') > 0)
    assert.equal(compareReleases('6.6.12', '6.6'), 0)
  })

  test('the release and the network namespace of this machine', () => {
    assert.ok(kernelRelease().major >= 5)
    assert.notEqual(netnsCookie(), 0n)
  })
})
