import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { makeService } from '../../model/fixtures.ts'
import { Inventory, type ObjectItem } from './inventory.ts'

const object = (name: string): ObjectItem => ({
  type: 'object',
  key: `n/${name}`,
  version: '1',
  object: makeService({ namespace: 'n', name }),
})
const gone = (name: string): ObjectItem => ({ type: 'gone', key: `n/${name}`, version: '1' })
const garbage = (name: string | undefined): ObjectItem => ({
  type: 'garbage',
  key: name === undefined ? undefined : `n/${name}`,
  version: '1',
  problem: { object: `Service ${name}`, field: 'spec', message: 'is wrong' },
})
const removal = (name: string) => ({ kind: 'Service', key: `n/${name}`, object: undefined })

/** A whole list. Returns what is gone by it. */
function list(inventory: Inventory, ...items: readonly ObjectItem[]) {
  inventory.beginList()
  for (const item of items) inventory.take(item)
  return inventory.endList()
}

const problems = (inventory: Inventory) => inventory.problems.map((problem) => problem.object)

describe('what a list no longer names is gone', () => {
  test('whether a list or an event had named it', () => {
    const inventory = new Inventory('Service')
    assert.deepEqual(list(inventory, object('a'), object('b')), [])
    inventory.take(object('c'))
    assert.deepEqual(list(inventory, object('b')), [removal('a'), removal('c')])
    assert.equal(inventory.size, 1)
    assert.deepEqual(list(inventory, object('b')), [])
  })

  test('also when a list before it did not come to its end', () => {
    const inventory = new Inventory('Service')
    list(inventory, object('a'), object('b'))
    inventory.beginList()
    inventory.take(object('a'))
    assert.deepEqual(list(inventory, object('b')), [removal('a')])
  })

  test('and an event says so of one', () => {
    const inventory = new Inventory('Service')
    list(inventory, object('a'))
    assert.deepEqual(inventory.take(gone('a')), [removal('a')])
    assert.deepEqual(inventory.take(gone('never seen')), [])
  })
})

describe('garbage', () => {
  test('leaves the object as it was, and is a problem until it is intact or gone', () => {
    const inventory = new Inventory('Service')
    list(inventory, object('a'), object('b'))
    assert.deepEqual(inventory.take(garbage('a')), [])
    assert.deepEqual(list(inventory, garbage('a'), garbage('b')), [])
    assert.deepEqual(problems(inventory), ['Service a', 'Service b'])
    assert.equal(inventory.take(object('a')).length, 1)
    inventory.take(gone('b'))
    assert.deepEqual(problems(inventory), [])
  })

  test('that was never anything else is a problem until a list does without it', () => {
    const inventory = new Inventory('Service')
    list(inventory, garbage('a'))
    assert.deepEqual([problems(inventory), inventory.size], [['Service a'], 0])
    list(inventory)
    assert.deepEqual(problems(inventory), [])
  })

  test('without a name is forgotten with the next list, and no more than ten are remembered', () => {
    const inventory = new Inventory('Service')
    list(inventory, ...Array.from({ length: 12 }, () => garbage(undefined)))
    assert.equal(problems(inventory).length, 10)
    list(inventory)
    assert.deepEqual(problems(inventory), [])
  })

  test('is the same list of problems while nothing changes', () => {
    const inventory = new Inventory('Service')
    list(inventory, garbage('a'))
    const before = inventory.problems
    inventory.take(object('b'))
    assert.equal(inventory.problems, before)
  })
})
