import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { suite, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { Codec } from 'libbpf-ts'
import { compileFile, temporaryFolder } from '../../loader/test/kit.ts'
import { emitModule } from './emit.ts'
import { LayoutError, type ObjectLayout, readLayout } from './layout.ts'

const FIXTURES = path.join(import.meta.dirname, 'fixtures')

function layoutOf(fixture: string, ...defines: string[]): ObjectLayout {
  using folder = temporaryFolder()
  const source = path.join(FIXTURES, `${fixture}.bpf.c`)
  const object = compileFile(source, path.join(folder.path, 'fixture.bpf.o'), defines)
  return readLayout(readFileSync(object), fixture)
}

/** The generated module, imported as the control plane imports it. */
async function importModule(text: string): Promise<Record<string, unknown>> {
  using folder = temporaryFolder()
  const file = path.join(folder.path, 'generated.ts')
  writeFileSync(file, text)
  return (await import(pathToFileURL(file).href)) as Record<string, unknown>
}

function encoded(codec: unknown, value: unknown): number[] {
  const { size, encode } = codec as Codec<unknown>
  const bytes = new Uint8Array(size + 2)
  encode(value, new DataView(bytes.buffer), 1)
  assert.equal(bytes[0], 0, 'wrote before the offset')
  assert.equal(bytes[size + 1], 0, 'wrote behind the end')
  return [...bytes.subarray(1, size + 1)]
}

suite('generated module', async () => {
  const ipv4 = layoutOf('kinds', 'FAMILY=4')
  const ipv6 = layoutOf('kinds', 'FAMILY=6')
  const text = emitModule({ 4: ipv4, 6: ipv6 })
  const module = await importModule(text)
  const part = (name: string): unknown => module[name]

  test('a struct with an address is one a family, others are one', () => {
    const structs = Object.keys(module).filter(
      (name) => typeof module[name] === 'object' && 'encode' in Object(module[name]),
    )
    assert.deepEqual(structs.toSorted(), ['everything', 'inner', 'peerKey4', 'peerKey6'])
  })

  test('a family compiled alone gives its structs the same names', async () => {
    const alone = await importModule(emitModule({ 4: ipv4 }))
    assert.ok('peerKey4' in alone && 'inner' in alone)
  })

  test('addresses are bytes, ports are in network order', () => {
    const value = { peerAddress: Uint8Array.of(10, 0, 0, 1), port: 0x1234, protocol: 6, zero: 0 }
    assert.deepEqual(encoded(part('peerKey4'), value), [10, 0, 0, 1, 0x12, 0x34, 6, 0])
    const wide = { ...value, peerAddress: Uint8Array.from({ length: 16 }, (_, i) => i) }
    assert.deepEqual(encoded(part('peerKey6'), wide).slice(0, 18), [...wide.peerAddress, 0x12, 0x34])
  })

  test('an address of the other family is refused', () => {
    const value = { peerAddress: new Uint8Array(16), port: 1, protocol: 6, zero: 0 }
    assert.throws(() => encoded(part('peerKey4'), value), /expected 4 bytes, got 16/)
  })

  test('each kind of field has its bytes, in both directions', () => {
    const everything = {
      big: 0x0102030405060708n,
      negative: -2n,
      networkBig: 0x0102030405060708n,
      networkWord: 0xfffefdfc,
      signedWord: -3,
      networkHalf: 0x0102,
      flag: true,
      tiny: -1,
      mac: Uint8Array.of(1, 2, 3, 4, 5, 6),
      text: new TextEncoder().encode('abcdef'),
      nested: { low: 1, high: -1 },
      pairs: [
        { low: 2, high: -2 },
        { low: 3, high: -3 },
      ],
      words: [7, 8, 9],
      grid: [
        [1, 2],
        [3, 4],
      ],
      anonymous: { first: 1, second: 1 },
      color: 7,
    }
    const bytes = encoded(part('everything'), everything)
    assert.deepEqual(bytes.slice(0, 40), [
      ...[8, 7, 6, 5, 4, 3, 2, 1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
      ...[1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xfe, 0xfd, 0xfc, 0xfd, 0xff, 0xff, 0xff],
      ...[1, 2, 1, 0xff, 1, 2, 3, 4],
    ])
    assert.deepEqual(bytes.slice(-8), [1, 0, 0, 1, 7, 0, 0, 0])
    const codec = part('everything') as Codec<unknown>
    assert.deepEqual(codec.decode(new DataView(Uint8Array.from(bytes).buffer), 0), everything)
  })

  test('a list that is too short is refused', () => {
    const codec = part('everything') as Codec<Record<string, unknown>>
    const value = codec.decode(new DataView(new ArrayBuffer(codec.size)), 0)
    assert.throws(() => encoded(codec, { ...value, words: [1, 2] }), /expected an element 2, got 2 elements/)
  })

  test('enumerations lose the prefix that all enumerators share, and have names by value', () => {
    assert.deepEqual(part('color'), { RED: 0, DARK_BLUE: 7 })
    assert.deepEqual(part('colorNames'), { 0: 'RED', 7: 'DARK_BLUE' })
    assert.deepEqual(part('weekday'), { SATURDAY: 6, SUNDAY: 0 })
  })

  test('a large struct has its offsets instead of a codec', () => {
    assert.deepEqual(part('bitsOffsets'), { size: 8192, words: 0 })
  })

  test('the table of maps has sizes and codecs; a private map has no codec', () => {
    const row = (type: string, keySize: number, valueSize: number, keyType: string, valueType: string) => {
      return { type, keySize, valueSize, maxEntries: 10, keyType, valueType }
    }
    assert.deepEqual(part('maps'), {
      peers4: row('hash', 8, 8, 'peerKey4', 'u64'),
      peers6: row('hash', 20, 8, 'peerKey6', 'u64'),
      scratch_area: row('percpu_array', 4, 8, 'u32', ''),
      things: row('array', 4, 88, 'u32', 'everything'),
    })
  })

  test('the same objects give the same text', () => {
    assert.equal(emitModule({ 4: layoutOf('kinds', 'FAMILY=4'), 6: ipv6 }), text)
  })
})

suite('layouts that are refused, and what the message names', () => {
  const rows: readonly [fault: number, title: string, message: RegExp][] = [
    [1, 'padding between fields', /^struct faulty, field count: 3 bytes of padding before it/],
    [2, 'padding at the end', /^struct faulty, field kind: 7 bytes of padding after it/],
    [3, 'bit fields', /^struct faulty, field first: bit fields are not supported/],
    [4, 'pointers', /^struct faulty, field pointer: a pointer cannot be in a layout/],
    [5, 'unions', /^struct faulty, field either: a union cannot be in a layout/],
    [6, 'padding in a nested struct', /^struct faulty, field nested, field b: 2 bytes of padding before it/],
  ]
  for (const [fault, title, message] of rows) {
    test(title, () => {
      assert.throws(
        () => layoutOf('refused', `FAULT=${fault}`),
        (error: unknown) => error instanceof LayoutError && message.test(error.message),
      )
    })
  }

  test('an object without BTF', () => {
    assert.throws(() => readLayout(new Uint8Array(100), 'x.o'), /x\.o: not an ELF file/)
  })
})

suite('npm run gen', () => {
  const run = (...args: string[]) => {
    return spawnSync(process.execPath, [path.join(import.meta.dirname, 'main.ts'), ...args], {
      encoding: 'utf8',
    })
  }

  test('what is committed is what the sources give', () => {
    const { status, stderr } = run('--check')
    assert.equal(status, 0, stderr)
  })

  test('--check names the stale file, fails, and leaves it alone', () => {
    using folder = temporaryFolder()
    assert.equal(run(folder.path).status, 0)
    for (const place of [
      'control/layout/generated.ts',
      'control/source/kubernetes/generated.ts',
      'docs/metrics.md',
      'docs/requirements.md',
    ]) {
      const file = path.join(folder.path, place)
      const current = readFileSync(file, 'utf8')
      writeFileSync(file, '// old')
      const { status, stdout, stderr } = run('--check', folder.path)
      assert.equal(status, 1)
      assert.match(stderr, new RegExp(`^\\S*${place} is stale: run npm run gen[^\\n]*\\n$`))
      assert.match(stdout, /^(\S* is up to date\n){8}$/)
      assert.equal(readFileSync(file, 'utf8'), '// old')
      writeFileSync(file, current)
    }
    assert.equal(run('--check', folder.path).status, 0)
  })
})
