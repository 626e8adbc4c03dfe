import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { contentHash, firstStalePackage, isStamped, stamp } from './fresh.mjs'
import { isBpffs, missingPackages, privilegeProblem } from './system.mjs'

const folders = { binaries: ['/usr/bin', '/usr/sbin'], headers: ['/usr/include'], libraries: ['/usr/lib'] }

test('a package is missing when one of its files is found in no folder', () => {
  const packages = [
    { name: 'tools', use: 'run', binaries: ['one', 'two'] },
    { name: 'headers', use: 'build', headers: ['a/b.h'] },
    { name: 'library', use: 'build', libraries: ['libx.so.1'] },
  ] as const
  const there = new Set(['/usr/bin/one', '/usr/sbin/two', '/usr/lib/libx.so.1'])
  const missing = missingPackages(packages, folders, (path) => there.has(path))
  assert.deepEqual(
    missing.map((wanted) => wanted.name),
    ['headers'],
  )
  there.delete('/usr/sbin/two')
  const more = missingPackages(packages, folders, (path) => there.has(path))
  assert.deepEqual(
    more.map((wanted) => wanted.name),
    ['tools', 'headers'],
  )
})

test('what lacks is named: system, root, system call, capability', () => {
  const good = { platform: 'linux', uid: 0, status: 'CapEff:\t000001ffffffffff\n', bpfSyscall: true }
  assert.equal(privilegeProblem(good), undefined)
  assert.match(privilegeProblem({ ...good, platform: 'darwin' }) ?? '', /needs Linux, this is darwin/)
  assert.match(privilegeProblem({ ...good, uid: 1000 }) ?? '', /root is missing.*sudo/)
  assert.match(privilegeProblem({ ...good, bpfSyscall: false }) ?? '', /bpf\(2\)/)
  assert.match(
    privilegeProblem({ ...good, status: 'CapEff:\t00000000a80425fb\n' }) ?? '',
    /CAP_NET_ADMIN and CAP_SYS_ADMIN missing/,
  )
  assert.match(privilegeProblem({ ...good, status: '' }) ?? '', /CAP_NET_ADMIN/)
})

test('the BPF file system is recognised by type and place', () => {
  const line = '58 30 0:31 / /sys/fs/bpf rw,relatime shared:12 - bpf bpf rw,mode=700'
  assert.equal(isBpffs(`1 0 0:1 / / rw - ext4 /dev/vda rw\n${line}\n`, '/sys/fs/bpf'), true)
  assert.equal(isBpffs(line.replace(' - bpf ', ' - tmpfs '), '/sys/fs/bpf'), false)
  assert.equal(isBpffs(line, '/sys/fs'), false)
  assert.equal(isBpffs('', '/sys/fs/bpf'), false)
})

test('node_modules is stale when a wanted package is absent or of another version', () => {
  const wanted = {
    packages: {
      '': {},
      loader: { version: '0.1.0' },
      'node_modules/a': { version: '1.0.0' },
      'node_modules/b': { version: '2.0.0', optional: true },
      'node_modules/ours': { link: true },
    },
  }
  const installed = {
    packages: { 'node_modules/a': { version: '1.0.0' }, 'node_modules/ours': { link: true } },
  }
  assert.equal(firstStalePackage(wanted, installed), undefined)
  assert.equal(firstStalePackage(wanted, { packages: {} }), 'node_modules/a')
  assert.equal(
    firstStalePackage(wanted, {
      packages: { ...installed.packages, 'node_modules/b': { version: '1.9.0' } },
    }),
    'node_modules/b',
  )
})

test('the hash follows contents and names, not times; a stamp remembers it', () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-fresh-'))
  try {
    mkdirSync(join(root, 'src/deep'), { recursive: true })
    writeFileSync(join(root, 'src/deep/a.ts'), 'one')
    const before = contentHash(root, ['src', 'absent'])
    writeFileSync(join(root, 'src/deep/a.ts'), 'one')
    assert.equal(contentHash(root, ['src', 'absent']), before)
    assert.equal(isStamped(root, 'x', before), false)
    stamp(root, 'x', before)
    assert.equal(isStamped(root, 'x', before), true)
    writeFileSync(join(root, 'src/deep/a.ts'), 'two')
    assert.notEqual(contentHash(root, ['src', 'absent']), before)
    writeFileSync(join(root, 'src/deep/b.md'), 'ignored')
    const filtered = contentHash(root, ['src'], (path) => path.endsWith('.ts'))
    rmSync(join(root, 'src/deep/b.md'))
    assert.equal(
      contentHash(root, ['src'], (path) => path.endsWith('.ts')),
      filtered,
    )
  } finally {
    rmSync(root, { recursive: true })
  }
})
