import assert from 'node:assert/strict'
import { it } from 'node:test'
import { table } from './table.ts'

it('aligns text to the left and numbers to the right, and leaves no blanks at the ends of lines', () => {
  assert.equal(
    table(
      ['NAME', 'COUNT', 'NOTE'],
      [
        ['a', 5, ''],
        ['longer', 12345678, 'x'],
      ],
    ),
    `
NAME       COUNT  NOTE
a              5
longer  12345678  x
`.slice(1),
  )
})

it('gives a row as many lines as its tallest cell', () => {
  assert.equal(
    table(
      ['A', 'B'],
      [
        ['one\ntwo', 'x'],
        ['three', 'y\nz'],
      ],
    ),
    `
A      B
one    x
two
three  y
       z
`.slice(1),
  )
})

it('prints the heads alone when there are no rows', () => {
  assert.equal(table(['A', 'B'], []), 'A  B\n')
})
