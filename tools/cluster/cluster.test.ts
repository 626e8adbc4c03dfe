import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { backendsOf, formatSocketAddress, parseSocketAddress, tally } from './agent-protocol.ts'
import { mountPoints } from './mounts.ts'
import { buildScript, hostDevice, memberId, namespaces } from './script.ts'
import { DEFAULT_SETTINGS, PODS } from './topology.ts'

test('names carry the prefix, and a prefix that a shell would misread is refused', () => {
  assert.equal(memberId('slt12', 'n1'), 'slt12-n1')
  assert.equal(namespaces('slt12').length, 10)
  for (const bad of ['', '1a', 'a b', 'a;b', 'x'.repeat(17)])
    assert.throws(() => memberId(bad, 'n1'), /cluster prefix/)
})

test('the script is one a shell can read, whatever the settings', () => {
  for (const flag of [false, true]) {
    const script = buildScript('slt12', {
      rpFilter: 1,
      forwardPolicyDrop: flag,
      dropInvalid: flag,
      brNetfilter: flag ? 1 : 0,
      masquerade: flag,
      vxlan: flag,
    })
    execFileSync('sh', ['-n'], { input: script })
    assert.equal(script.includes(':FORWARD DROP'), flag)
    assert.equal(script.includes('--ctstate INVALID -j DROP'), flag)
    assert.equal(script.includes('MASQUERADE'), flag)
    assert.equal(script.includes('type vxlan'), flag)
    assert.match(script, /net\.ipv4\.conf\.all\.rp_filter=1/)
  }
})

test('a pod on a bridge has the gateway of the bridge, a routed one the link-local one', () => {
  const script = buildScript('slt12', DEFAULT_SETTINGS)
  assert.match(script, /ip -n slt12-p1 -batch[\s\S]*?route add default via 10\.244\.1\.1\n/)
  assert.match(
    script,
    /ip -n slt12-p3 -batch[\s\S]*?address add 10\.244\.1\.133\/32[\s\S]*?default via 169\.254\.1\.1 dev eth0\n/,
  )
  assert.equal(hostDevice(PODS.p1), 'vethp1')
  assert.equal(hostDevice(PODS.p3), 'calip3')
})

test('addresses with ports are read and written in both families', () => {
  for (const text of ['10.0.0.1:80', '[fd00::1]:65535']) {
    assert.equal(formatSocketAddress(parseSocketAddress(text)), text)
  }
  for (const bad of ['10.0.0.1', 'fd00::1:80', '10.0.0.1:70000', ':80']) {
    assert.throws(() => parseSocketAddress(bad), /takes ADDRESS:PORT/)
  }
})

test('answers are counted by backend, failures by error', () => {
  const end = { address: '10.0.0.1', port: 1 }
  const answered = {
    ok: true,
    backend: 'p1',
    peer: end,
    server: end,
    echo: '',
    local: end,
    remote: end,
  } as const
  const answers = [answered, { ok: false, error: 'ECONNREFUSED' } as const, answered]
  assert.deepEqual(backendsOf(answers), ['p1', 'ECONNREFUSED', 'p1'])
  assert.deepEqual(tally(answers), { p1: 2, ECONNREFUSED: 1 })
})

test('mount points are found by type, blanks decoded', () => {
  const mountinfo = [
    '25 1 0:1 / / rw - ext4 /dev/vda rw',
    '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw',
    '42 31 0:39 / /mnt/a\\040b rw - cgroup2 none rw',
    '',
  ].join('\n')
  assert.deepEqual(mountPoints(mountinfo, 'cgroup2'), ['/sys/fs/cgroup/unified', '/mnt/a b'])
  assert.deepEqual(mountPoints(mountinfo, 'bpf'), [])
})
