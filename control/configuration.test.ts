/** The configuration as an operator meets it: the program as a process, without root. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

const MAIN = join(import.meta.dirname, 'main.ts')
const KUBEADM = join(import.meta.dirname, 'config/testdata/kubeadm.yaml')
const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-`))
after(() => rmSync(folder, { recursive: true }))

function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [MAIN, 'run', '--source', 'kubernetes', ...args],
    {
      encoding: 'utf8',
    },
  )
  return { code: status, stdout, stderr }
}

test('a wrong one gives every error at once, and exit code 2', () => {
  const file = join(folder, 'wrong.conf')
  const text = readFileSync(KUBEADM, 'utf8')
    .replace('clusterCIDR: 10.244.0.0/16', 'clusterCIDR: 10.244.0.0/33')
    .replace('oomScoreAdj: null', 'oomScoreAdj: 5000')
    .replace('mode: ""', 'mode: kernelspace')
    .replace('bindAddress: 0.0.0.0', 'bindAddress: 0.0.0')
  writeFileSync(file, text)
  const { code, stdout, stderr } = run('--config', file)
  assert.deepEqual([code, stdout], [2, ''])
  const [first, ...lines] = stderr.trimEnd().split('\n')
  assert.equal(first, `sluice: --config ${file} has 4 fields that cannot be used:`)
  assert.deepEqual(
    lines.map((line) => /^ {2}line \d+, (\w+): got .*\. It takes /.exec(line)?.[1]),
    ['bindAddress', 'clusterCIDR', 'mode', 'oomScoreAdj'],
  )
})

test('what would be used is written as a file, which is read again', () => {
  const first = join(folder, 'first.yaml')
  const second = join(folder, 'second.yaml')
  assert.deepEqual(run('--config', KUBEADM, '--hostname-override=n1', '--write-config-to', first), {
    code: 0,
    stdout: '',
    stderr: '',
  })
  const text = readFileSync(first, 'utf8')
  assert.match(text, /^apiVersion: kubeproxy\.config\.k8s\.io\/v1alpha1$/m)
  assert.match(text, /^hostnameOverride: n1$/m)
  assert.match(text, /^clusterCIDR: 10\.244\.0\.0\/16$/m)
  assert.equal(run('--config', first, '--write-config-to', second).code, 0)
  assert.equal(readFileSync(second, 'utf8'), text)
  const { code, stderr } = run('--config', first, '--write-config-to', join(folder, 'no', 'where'))
  assert.equal(code, 2)
  assert.match(stderr, /^sluice: --write-config-to .*: it cannot be written: ENOENT/)
})
