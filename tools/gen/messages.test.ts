/** Generated readers of messages, on bytes that protobufjs's own encoder has written. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { suite, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { type Reader, readerOf } from '../../control/source/kubernetes/wire.ts'
import { temporaryFolder } from '../../loader/test/kit.ts'
import { emitMessages } from './messages.ts'

const WIRE = pathToFileURL(path.join(import.meta.dirname, '../../control/source/kubernetes/wire.ts')).href

const PROTO = `
syntax = "proto3";
package test;

// What it holds.
// In two lines.
message Outer {
  string plain = 1;
  optional string mayBeAbsent = 2;
  int32 number = 3;
  bool flag = 4;
  bytes raw = 5;
  repeated string texts = 6;
  repeated bytes items = 7;
  Inner inner = 8;
  repeated Inner inners = 9;
  map<string, string> labels = 10;
  Time since = 11;
  int64 large = 1000;
}
message Inner { string a = 1; optional bool b = 2; }
message Time { optional int64 seconds = 1; }
`

/** The same with a field more of each wire type in every message, as a newer server has it. */
const NEWER = PROTO.replaceAll(
  /(message (?:Outer|Inner) \{)/g,
  '$1 string new1 = 101; int64 new2 = 102; double new3 = 103; float new4 = 104; Time new5 = 105;',
)

type Read = (reader: Reader) => unknown

async function readerFrom(text: string, name: string): Promise<Read> {
  using folder = temporaryFolder()
  const file = path.join(folder.path, 'generated.ts')
  writeFileSync(file, text)
  const module = (await import(pathToFileURL(file).href)) as Record<string, Read>
  const read = module[`read${name}`]
  assert.ok(read !== undefined)
  return read
}

suite('generated readers', async () => {
  const text = emitMessages(PROTO, WIRE)
  const readOuter = await readerFrom(text, 'Outer')
  const outer = protobuf.parse(PROTO).root.lookupType('Outer')
  const read = (bytes: Uint8Array): unknown => readOuter(readerOf(Buffer.from(bytes)))
  const encode = (value: object): Uint8Array => outer.encode(outer.fromObject(value)).finish()

  const EMPTY = {
    plain: '',
    mayBeAbsent: undefined,
    number: 0,
    flag: false,
    raw: new Uint8Array(),
    texts: undefined,
    items: undefined,
    inner: undefined,
    inners: undefined,
    labels: undefined,
    since: '',
    large: 0,
  }

  test('what is empty, and what is absent', () => {
    assert.deepEqual(read(Buffer.alloc(0)), EMPTY)
    assert.deepEqual(read(encode({ mayBeAbsent: '', inner: {}, since: {} })), {
      ...EMPTY,
      mayBeAbsent: '',
      inner: { a: '', b: undefined },
    })
  })

  test('every kind of field', () => {
    const value = {
      plain: 'päin',
      mayBeAbsent: 'x',
      number: -5,
      flag: true,
      raw: Buffer.from([1, 2]),
      texts: ['a', '', 'b'],
      items: [Buffer.from([3]), Buffer.alloc(0)],
      inner: { a: 'y', b: false },
      inners: [{ a: '1' }, { b: true }],
      labels: { __proto__x: 'z', '': '' },
      since: { seconds: 86_400 },
      large: 2 ** 40,
    }
    assert.deepEqual(read(encode(value)), {
      ...value,
      inners: [
        { a: '1', b: undefined },
        { a: '', b: true },
      ],
      labels: value.labels,
      since: '1970-01-02T00:00:00Z',
    })
  })

  test('a name in a map can be any text', () => {
    // Field 10: an entry with the name __proto__ and the text x.
    const bytes = Buffer.concat([
      Buffer.from([82, 14, 10, 9]),
      Buffer.from('__proto__'),
      Buffer.from('\x12\x01x'),
    ])
    const { labels } = read(bytes) as { labels: object }
    assert.deepEqual(Object.entries(labels), [['__proto__', 'x']])
  })

  test('a message in two parts is one', () => {
    const bytes = Buffer.concat([encode({ inner: { a: 'y' } }), encode({ inner: { b: true } })])
    assert.deepEqual(read(bytes), { ...EMPTY, inner: { a: 'y', b: true } })
  })

  test('fields of a newer server are passed over', () => {
    const newer = protobuf.parse(NEWER).root.lookupType('Outer')
    const more = { new1: 'n', new2: -1, new3: 1.5, new4: 2.5, new5: { seconds: 1 } }
    const value = { ...more, plain: 'x', inner: { ...more, a: 'y' }, inners: [{ ...more, a: 'z' }] }
    assert.deepEqual(read(newer.encode(newer.fromObject(value)).finish()), {
      ...EMPTY,
      plain: 'x',
      inner: { a: 'y', b: undefined },
      inners: [{ a: 'z', b: undefined }],
    })
  })

  const garbled: readonly (readonly [why: string, bytes: readonly number[], message: RegExp])[] = [
    ['a number for a text', [8, 1], /Outer\.plain has wire type 0, and must have 2/],
    ['a text for a number', [26, 1, 65], /Outer\.number has wire type 2, and must have 0/],
    ['a text for a flag', [34, 1, 65], /Outer\.flag has wire type 2/],
    ['a fixed number for bytes', [45, 0, 0, 0, 0], /Outer\.raw has wire type 5/],
    ['a number for a message', [64, 1], /Outer\.inner has wire type 0/],
    ['a number for a map', [80, 1], /Outer\.labels has wire type 0/],
    ['a number for a name in a map', [82, 2, 8, 1], /Outer\.labels has wire type 0/],
    [
      'a field in a message that is longer than the message',
      [66, 2, 10, 5, 1, 1, 1, 1, 1],
      /index out of range/,
    ],
    ['a message that is longer than what it is in', [66, 9, 0], /Outer\.inner has 9 bytes, more than/],
    ['a wire type that does not exist', [0xf7, 0x07, 0], /invalid wire type 7/],
    ['half a tag', [0x80], /index out of range/],
  ]
  for (const [why, bytes, message] of garbled) {
    test(`${why} is an error`, () => assert.throws(() => read(Buffer.from(bytes)), message))
  }

  test('whatever the bytes, it is read or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        try {
          read(bytes)
        } catch (error) {
          assert.ok(error instanceof Error)
        }
      }),
      { numRuns: 2000 },
    )
  })

  test('what a comment says is said', () => {
    assert.match(text, /\/\*\* What it holds\. In two lines\. \*\/\nexport interface Outer \{/)
  })
})

test('what the API has not is refused, by its name', () => {
  const field = (type: string) => `syntax = "proto3"; message A { ${type} b = 1; }`
  const table: readonly (readonly [proto: string, message: RegExp])[] = [
    [field('repeated int32'), /A\.b: a list of int32 is not supported/],
    [field('map<string, int32>'), /A\.b: a map of anything but texts/],
    [field('map<int32, string>'), /A\.b: a map of anything but texts/],
    [field('double'), /A\.b: a field of type double/],
    ['syntax = "proto3"; enum D { E = 0; }', /D: only messages/],
    ['syntax = "proto3"; message A { message B {} }', /A: messages in messages/],
    ['syntax = "proto3"; service S {}', /S: only messages/],
    ['syntax = "proto3"; message A {', /illegal|unexpected|line 1/],
  ]
  for (const [proto, message] of table) assert.throws(() => emitMessages(proto, './wire.ts'), message)
})
