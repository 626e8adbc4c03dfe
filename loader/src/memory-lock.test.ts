import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { memoryLockHint } from './memory-lock.ts'

const EPERM = -1
const ENOMEM = -12
const refused = { limit: 65_536n, failure: 'EPERM' }

suite('RLIMIT_MEMLOCK', () => {
  test('is named as the reason where kernels count against it and it could not be raised', () => {
    assert.match(
      memoryLockHint(EPERM, refused, '5.10.0-46-amd64') ?? '',
      /RLIMIT_MEMLOCK, which is 65536 bytes and could not be raised \(EPERM\): raise it/,
    )
  })

  test('is no reason otherwise', () => {
    assert.equal(memoryLockHint(EPERM, refused, '5.11.0'), undefined)
    assert.equal(memoryLockHint(EPERM, { limit: undefined }, '5.10.0'), undefined)
    assert.equal(memoryLockHint(ENOMEM, refused, '5.10.0'), undefined)
  })
})
