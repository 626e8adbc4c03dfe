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

suite('the package', () => {
  test('knows koffi in one file only', () => {
    assert.deepEqual(
      files.filter((file) => importsOf(file).includes('koffi')),
      ['ffi.ts'],
    )
  })

  test('imports nothing else but Node.js and itself', () => {
    for (const file of files) {
      const foreign = importsOf(file).filter((target) => !/^(node:|\.\/)/.test(target) && target !== 'koffi')
      assert.deepEqual(foreign, [], file)
    }
  })
})
