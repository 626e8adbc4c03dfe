import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { suite, test } from 'node:test'

const SOURCE = path.join(import.meta.dirname, '../src')
const files = readdirSync(SOURCE).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))

function importsOf(file: string): string[] {
  const text = readFileSync(path.join(SOURCE, file), 'utf8')
  return [...text.matchAll(/from '([^']+)'/g)].map(([, target = '']) => target)
}

/** Without the types, which are gone when it runs. */
function runtimeImportsOf(file: string): string[] {
  const text = readFileSync(path.join(SOURCE, file), 'utf8')
  return [...text.matchAll(/^(?:import|export) (?!type )[^;']*?from '([^']+)'/gm)].map(
    ([, target = '']) => target,
  )
}

suite('the package', () => {
  test('knows koffi in one file only', () => {
    assert.deepEqual(
      files.filter((file) => importsOf(file).includes('koffi')),
      ['ffi.ts'],
    )
  })

  test('has a fake that works where neither koffi nor libbpf is', () => {
    const reached = new Set(['fake.ts'])
    for (const file of reached) {
      for (const target of runtimeImportsOf(file)) if (target.startsWith('./')) reached.add(target.slice(2))
    }
    assert.ok(reached.size > 5, [...reached].join(' '))
    assert.ok(!reached.has('ffi.ts'), [...reached].join(' '))
  })

  test('imports nothing else but Node.js and itself', () => {
    for (const file of files) {
      const foreign = importsOf(file).filter((target) => !/^(node:|\.\/)/.test(target) && target !== 'koffi')
      assert.deepEqual(foreign, [], file)
    }
  })
})
