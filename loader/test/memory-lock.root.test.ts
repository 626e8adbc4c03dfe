import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { suite, test } from 'node:test'
import { effectiveCapabilities } from '../src/index.ts'
import { rootOnly } from './kit.ts'

const INDEX = path.join(import.meta.dirname, '../src/index.ts')

/** Makes a map in a process that begins with these limits, and returns its soft limit after. */
function limitAfterMap(limits: string, privileges: readonly string[] = []): string {
  const script = `
    import { readFileSync } from 'node:fs'
    import { createMap } from ${JSON.stringify(INDEX)}
    createMap({ name: 'small', type: 'array', keySize: 4, valueSize: 4, maxEntries: 1 }).close()
    process.stdout.write(/^Max locked memory +(\\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? '')`
  const node = [process.execPath, '--input-type=module', '-e', script]
  const [command = '', ...args] = ['prlimit', `--memlock=${limits}`, ...privileges, ...node]
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

suite('RLIMIT_MEMLOCK', rootOnly, () => {
  test('is lifted before the first map is made', () => {
    // A container may have kept the privilege to go beyond the maximum from root.
    const isFree = effectiveCapabilities().includes('SYS_RESOURCE')
    assert.equal(limitAfterMap('65536:131072'), isFree ? 'unlimited' : '131072')
  })

  test('goes as high as it may without the privilege to lift it', () => {
    const without = ['setpriv', '--bounding-set=-sys_resource', '--inh-caps=-sys_resource', '--']
    assert.equal(limitAfterMap('65536:131072', without), '131072')
  })
})
