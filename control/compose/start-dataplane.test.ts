import assert from 'node:assert/strict'
import { it } from 'node:test'
import { BpfError } from 'libbpf-ts'
import { unfitOf } from './start-dataplane.ts'

it('what the kernel refuses makes the node unfit; what has run out, or is no answer of the kernel, does not', () => {
  const rows: [errno: number, isUnfit: boolean][] = [
    [1, true], // EPERM: seccomp, a lockdown
    [13, true], // EACCES: the verifier
    [22, true], // EINVAL: no such map or program
    [38, true], // ENOSYS
    [7, false], // E2BIG
    [12, false], // ENOMEM
    [28, false], // ENOSPC
    [16, false], // EBUSY
    [24, false], // EMFILE
  ]
  for (const [errno, isUnfit] of rows) {
    const error = new BpfError('load', 'program ingress', errno)
    const unfit = unfitOf(error)
    assert.equal(unfit !== undefined, isUnfit, error.message)
    if (unfit === undefined) continue
    assert.match(unfit.message, /refuses the programs \(load of program ingress failed: E/)
    assert.equal(unfit.cause, error)
  }
  assert.equal(unfitOf(new Error('ENOSYS')), undefined)
})
