import assert from 'node:assert/strict'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Cache } from './cache.ts'

function temporary(): { readonly cache: Cache } & Disposable {
  const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-cache-`))
  return {
    cache: new Cache(folder),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

test('an entry is made once, and one whose making failed is not there', () => {
  using held = temporary()
  const { cache } = held
  let made = 0
  const make = (folder: string): void => {
    made += 1
    writeFileSync(join(folder, 'file'), String(made))
  }
  const path = cache.entry('kernels', 'one', make)
  assert.equal(cache.entry('kernels', 'one', make), path)
  assert.equal(readFileSync(join(path, 'file'), 'utf8'), '1')
  const fail = (folder: string): void => {
    make(folder)
    throw new Error('no space')
  }
  assert.throws(() => cache.entry('kernels', 'two', fail), /no space/)
  assert.equal(existsSync(join(cache.folder, 'kernels/two')), false)
  assert.equal(readFileSync(join(cache.entry('kernels', 'two', make), 'file'), 'utf8'), '3')
})

test('of roots only those that were used last are kept', () => {
  using held = temporary()
  const { cache } = held
  const old = (key: string, hour: number) => {
    const at = new Date(2026, 0, 1, hour)
    utimesSync(
      cache.entry('roots', key, () => undefined),
      at,
      at,
    )
  }
  old('a', 1)
  old('b', 2)
  cache.entry('roots', 'a', () => undefined)
  cache.entry('roots', 'c', () => undefined)
  assert.deepEqual(readdirSync(join(cache.folder, 'roots')).sort(), ['a', 'c'])
})

test('one at a time holds the lock', async () => {
  using held = temporary()
  const { cache } = held
  const order: string[] = []
  const first = await cache.lock()
  const second = cache.lock().then(async (lock) => {
    order.push('second')
    await lock[Symbol.asyncDispose]()
  })
  order.push('first')
  await first[Symbol.asyncDispose]()
  await second
  assert.deepEqual(order, ['first', 'second'])
})
