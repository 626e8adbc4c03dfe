import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { cgroupFolder, cgroupMount } from './requirements.ts'

const MOUNT = cgroupMount()

test('a cgroup root is a folder of version 2, or has it below, as where systemd mounts both', {
  skip: MOUNT === undefined && 'no cgroup v2 is mounted',
}, () => {
  const mount = MOUNT ?? ''
  const both = mkdtempSync(join(tmpdir(), 'sluice-cgroup-'))
  try {
    assert.equal(cgroupFolder(mount), mount)
    assert.equal(cgroupFolder(both), undefined)
    assert.equal(cgroupFolder(join(both, 'none')), undefined)
    symlinkSync(mount, join(both, 'unified'))
    assert.equal(cgroupFolder(both), join(both, 'unified'))
  } finally {
    rmSync(both, { recursive: true })
  }
})
