import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { changesBetween, emptyFolder, isManifestName, mergeManifests } from './folder.ts'
import { emptyManifest, type Manifest, readManifest } from './manifest.ts'

const service = (name: string, clusterIP = '10.96.0.1') => `apiVersion: v1
kind: Service
metadata: {name: ${name}}
spec:
  clusterIP: ${clusterIP}
  ports: [{port: 80}]
`
const read = (text: string, previous = emptyManifest, file = 'a.yaml') => readManifest(file, text, previous)
const places = ({ objects }: Manifest) => [...objects].map(([id, { place }]) => `${id} ${place}`)
const problems = ({ problems }: Pick<Manifest, 'problems'>) =>
  problems.map(({ place, object, field, message }) => `${place} ${object} ${field}: ${message}`)

describe('a file is split into documents', () => {
  const table: readonly [why: string, text: string, expected: readonly string[]][] = [
    ['one', service('a'), ['Service default/a a.yaml:1']],
    [
      'several',
      `${service('a')}---\n${service('b')}`,
      ['Service default/a a.yaml:1', 'Service default/b a.yaml:8'],
    ],
    ['comments first', `# why\n\n---\n# more\n${service('a')}`, ['Service default/a a.yaml:5']],
    ['empty ones between', `---\n---\n${service('a')}---\n---\n`, ['Service default/a a.yaml:3']],
    ['a directive and an end mark', `%YAML 1.2\n---\n${service('a')}...\n`, ['Service default/a a.yaml:3']],
    [
      'on the line of the mark',
      '--- {apiVersion: v1, kind: Node, metadata: {name: n1}}',
      ['Node n1 a.yaml:1'],
    ],
    [
      'lines that end as on Windows',
      `---\r\n${service('a').replaceAll('\n', '\r\n')}`,
      ['Service default/a a.yaml:2'],
    ],
    ['a byte order mark', `\uFEFF${service('a')}`, ['Service default/a a.yaml:1']],
    ['nothing', '', []],
    ['nothing but comments', '# nothing\n', []],
  ]
  for (const [why, text, expected] of table) {
    test(why, () => {
      const manifest = read(text)
      assert.deepEqual(problems(manifest), [])
      assert.deepEqual(places(manifest), expected)
    })
  }

  test('a mark within a line is none', () => {
    const text = service('a').replace('{name: a}', '{name: a, annotations: {x: "a --- b"}}')
    assert.equal(read(text).objects.size, 1)
  })

  test('JSON', () => {
    const text = '\n{"apiVersion": "v1", "kind": "Node",\n "metadata": {"name": "n1"}}'
    assert.deepEqual(places(read(text, emptyManifest, 'a.json')), ['Node n1 a.json:2'])
  })
})

describe('problems say where', () => {
  test('the line of the field in the file', () => {
    const text = `${service('a')}---\n${service('b').replace('port: 80', 'port: eighty')}`
    assert.deepEqual(problems(read(text)), [
      'a.yaml:13 Service default/b spec.ports[0].port: "eighty" is not a whole number',
    ])
  })

  test('for a field that is absent, the line of the mapping that lacks it', () => {
    const text = `# first\n${service('a').replace('metadata: {name: a}', 'metadata:\n  labels: {}')}`
    assert.deepEqual(problems(read(text)), [
      'a.yaml:5 Service without a name metadata.name: has no value, but is required',
    ])
  })

  test('in a list, and in JSON', () => {
    const text = `{"apiVersion": "v1", "kind": "List", "items": [
      {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
       "spec": {"ports": [
         {"port": "80"}]}}]}`
    assert.deepEqual(problems(read(text, emptyManifest, 'a.json')), [
      'a.json:4 Service default/a spec.ports[0].port: "80" is not a whole number',
    ])
  })
})

describe('a file that does not parse', () => {
  const good = read(`${service('a')}---\n${service('b')}`)

  const broken: readonly [why: string, text: string, line: number][] = [
    ['one document among good ones', `${service('a', '10.96.0.9')}---\nmetadata: {name: [}\n`, 8],
    ['a key twice', `${service('a')}kind: Service\n`, 7],
    ['an alias of nothing', 'a: *b\n', 1],
    ['a tab', 'metadata:\n\tname: a\n', 2],
  ]
  for (const [why, text, line] of broken) {
    test(`${why}: keeps all its objects, and says where`, () => {
      const manifest = read(text, good)
      assert.equal(manifest.objects, good.objects)
      assert.match(
        problems(manifest).join(),
        new RegExp(`^a\\.yaml:${line} File a\\.yaml : .*stay as they were$`, 's'),
      )
    })
  }

  test('JSON too', () => {
    assert.match(problems(read('{\n "a": 1,\n}', good, 'a.json')).join(), /^a\.json:3 File a\.json/)
  })

  test('is well again with the next version', () => {
    assert.deepEqual(problems(read(service('a'), read('a: [', good))), [])
  })
})

test('an object of a wrong shape stays as it was; the others in the file change', () => {
  const before = read(`${service('a')}---\n${service('b')}`)
  const after = read(
    `${service('a').replace('port: 80', 'port: x')}---\n${service('b', '10.96.0.2')}`,
    before,
  )
  assert.equal(after.objects.get('Service default/a'), before.objects.get('Service default/a'))
  assert.notEqual(
    after.objects.get('Service default/b')?.change,
    before.objects.get('Service default/b')?.change,
  )
  assert.equal(after.problems.length, 1)
})

test('an object twice in a file: the first one counts', () => {
  const manifest = read(`${service('a')}---\n${service('a', '10.96.0.2')}`)
  assert.deepEqual(places(manifest), ['Service default/a a.yaml:1'])
  assert.deepEqual(problems(manifest), [
    'a.yaml:8 Service default/a : is defined at a.yaml:1 already; this one is left out',
  ])
})

describe('a folder', () => {
  const a = read(service('a'), emptyManifest, 'a.yaml')
  const b = read(`${service('b')}---\n${service('a', '10.96.0.2')}`, emptyManifest, 'b.yaml')

  test('of an object in two files, that of the first name counts, in whatever order they were read', () => {
    for (const files of [
      new Map([
        ['a.yaml', a],
        ['b.yaml', b],
      ]),
      new Map([
        ['b.yaml', b],
        ['a.yaml', a],
      ]),
    ]) {
      const folder = mergeManifests(files)
      assert.equal(folder.objects.get('Service default/a')?.place, 'a.yaml:1')
      assert.deepEqual(problems(folder), [
        'b.yaml:8 Service default/a : is defined at a.yaml:1 already; this one is left out',
      ])
    }
  })

  test('changes are what came, went or was read anew', () => {
    const first = mergeManifests(
      new Map([
        ['a.yaml', a],
        ['b.yaml', b],
      ]),
    )
    const changes = (before: Parameters<typeof changesBetween>[0], after: typeof before) =>
      changesBetween(before, after).map(
        ({ key, object }) => `${key} ${object === undefined ? 'gone' : 'set'}`,
      )
    assert.deepEqual(changes(emptyFolder, first), ['default/a set', 'default/b set'])
    assert.deepEqual(changes(first, first), [])
    assert.deepEqual(changes(first, mergeManifests(new Map([['b.yaml', b]]))), ['default/a set'])
    assert.deepEqual(changes(first, mergeManifests(new Map([['a.yaml', a]]))), ['default/b gone'])
  })

  test('a document that is as it was is not read again, wherever in the file it is now', () => {
    const moved = read(`# a comment more\n---\n${service('new')}---\n${service('a')}`, a)
    assert.equal(
      moved.objects.get('Service default/a')?.change.object,
      a.objects.get('Service default/a')?.change.object,
    )
  })

  test('files are known by their names', () => {
    for (const name of ['a.yaml', 'a.yml', 'a.json']) assert.equal(isManifestName(name), true, name)
    for (const name of [
      '.a.yaml',
      '..data',
      'a.yaml~',
      '.a.yaml.swp',
      '4913',
      'a.yaml.tmp',
      '#a.yaml#',
      'README',
    ]) {
      assert.equal(isManifestName(name), false, name)
    }
  })
})
