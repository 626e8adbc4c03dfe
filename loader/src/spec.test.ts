import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { suite, test } from 'node:test'
import { compile, temporaryFolder } from '../test/kit.ts'
import { parseBtf, resolveType } from './btf.ts'
import { parseElf } from './elf.ts'
import { SpecError } from './errors.ts'
import { compareMaps, constantBytes } from './object.ts'
import { readSpec } from './spec.ts'

suite('readSpec', () => {
  using folder = temporaryFolder()
  const spec = readSpec(compile('maps', folder.path))
  const file = readFileSync(spec.path)

  test('maps, with sections of globals among them', () => {
    assert.deepEqual([...spec.maps.keys()].toSorted(), [
      '.data',
      '.data.filter',
      '.rodata',
      'cells',
      'counts',
      'pairs',
      'prefixes',
      'recent',
    ])
    assert.deepEqual(spec.maps.get('pairs'), {
      name: 'pairs',
      type: 'hash',
      keySize: 8,
      valueSize: 8,
      maxEntries: 1000,
      flags: 0,
    })
    assert.equal(spec.maps.get('.data.filter')?.valueSize, 512)
  })

  test('programs', () => {
    const programs = [...spec.programs.values()].map(({ name, section, type }) => [name, section, type])
    assert.deepEqual(programs, [
      ['count_packet', 'tc', 'sched_cls'],
      ['add_up', 'syscall', 'syscall'],
    ])
  })

  test('globals, with where they are', () => {
    const sizes = [...spec.globals.values()].map(({ name, section, size }) => `${section} ${name} ${size}`)
    assert.deepEqual(sizes.toSorted(), [
      '.data runs 4',
      '.data.filter filter 512',
      '.rodata address 6',
      '.rodata answer 4',
      '.rodata enabled 1',
      '.rodata small 1',
    ])
    const { section, offset } = spec.globals.get('answer') ?? assert.fail()
    const bytes = parseElf(file, spec.path).sections.find(({ name }) => name === section)?.bytes
    assert.equal(bytes?.[offset], 41)
  })

  test('types, through typedefs and qualifiers', () => {
    const section = parseElf(file, spec.path).sections.find(({ name }) => name === '.BTF') ?? assert.fail()
    const btf = parseBtf(section.bytes)
    const pair = btf.types.find((type) => type.kind === 'struct' && type.name === 'pair')
    assert.ok(pair?.kind === 'struct')
    assert.deepEqual(
      pair.members.map(({ name, type, offsetBits }) => [name, resolveType(btf, type).kind, offsetBits]),
      [
        ['left', 'int', 0],
        ['right', 'int', 32],
      ],
    )
  })

  const refused: readonly [title: string, bytes: Uint8Array, message: RegExp][] = [
    ['something else', new TextEncoder().encode('#!/bin/sh\n'.repeat(20)), /not an ELF file/],
    ['an empty file', new Uint8Array(), /not an ELF file/],
    ['an object for another machine', patched(file, 18, 62), /not for the BPF machine/],
    ['a truncated object', file.subarray(0, 3000), /truncated/],
  ]
  for (const [title, bytes, message] of refused) {
    test(`${title} is refused by name`, () => {
      using other = temporaryFolder()
      const target = path.join(other.path, 'other.o')
      writeFileSync(target, bytes)
      assert.throws(
        () => readSpec(target),
        (error: unknown) =>
          error instanceof SpecError && message.test(error.message) && error.message.includes(target),
      )
    })
  }
})

function patched(bytes: Uint8Array, at: number, value: number): Uint8Array {
  const copy = Uint8Array.from(bytes)
  copy[at] = value
  return copy
}

suite('constants as bytes', () => {
  const global = (size: number) => ({ name: 'limit', section: '.rodata', offset: 0, size })
  const rows: readonly [size: number, value: number | bigint | boolean | Uint8Array, bytes: number[]][] = [
    [1, true, [1]],
    [1, 255, [255]],
    [1, -1, [255]],
    [2, 0x1234, [0x34, 0x12]],
    [4, -2, [254, 255, 255, 255]],
    [8, 1n << 63n, [0, 0, 0, 0, 0, 0, 0, 128]],
    [3, Uint8Array.of(1, 2, 3), [1, 2, 3]],
  ]
  for (const [size, value, bytes] of rows) {
    test(`${value} in ${size} bytes`, () => assert.deepEqual([...constantBytes(global(size), value)], bytes))
  }

  const refused: readonly [size: number, value: number | bigint | Uint8Array, message: RegExp][] = [
    [1, 256, /limit has 8 bits, 256 does not fit/],
    [1, -129, /does not fit/],
    [4, 1.5, /must be an integer, got 1.5/],
    [4, Number.NaN, /must be an integer/],
    [6, 1, /has 6 bytes: give it as a Uint8Array/],
    [4, new Uint8Array(3), /has 4 bytes, got 3/],
  ]
  for (const [size, value, message] of refused) {
    test(`${value} in ${size} bytes is refused`, () => {
      assert.throws(() => constantBytes(global(size), value), message)
    })
  }
})

test('the differences of two maps are listed in full', () => {
  const pinned = { type: 'hash', keySize: 4, valueSize: 8, maxEntries: 10, flags: 0 } as const
  assert.deepEqual(compareMaps(pinned, pinned), [])
  assert.deepEqual(compareMaps(pinned, { ...pinned, type: 'lru_hash', flags: 1 }), [
    { field: 'type', pinned: 'hash', wanted: 'lru_hash' },
    { field: 'flags', pinned: 0, wanted: 1 },
  ])
})
