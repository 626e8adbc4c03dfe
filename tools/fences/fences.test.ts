import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import type { SourceFile } from './fences.ts'
import { importsOf, violations } from './fences.ts'

const ROOT = join(import.meta.dirname, '../..')
const PASSED_OVER = new Set(['node_modules', 'build', '.git'])

function sources(folder: string): SourceFile[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return PASSED_OVER.has(entry.name) ? [] : sources(path)
    return entry.name.endsWith('.ts')
      ? [{ path: relative(ROOT, path), text: readFileSync(path, 'utf8') }]
      : []
  })
}

test('every file keeps inside its fence', () => {
  assert.deepEqual(violations(sources(ROOT)), [])
})

test('every package that the program is given is imported by it', () => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const imported = new Set(sources(ROOT).flatMap(({ text }) => importsOf(text)))
  const isImported = (name: string): boolean =>
    [...imported].some((specifier) => specifier === name || specifier.startsWith(`${name}/`))
  assert.deepEqual(
    Object.keys(dependencies).filter((name) => !isImported(name)),
    [],
  )
})

test('imports are found in all their forms, and not in comments or texts', () => {
  const text = `
    import { a } from './a.ts'
    import type {
      B,
    } from '../b.ts'
    import './c.ts'
    export * from 'd'
    export { e } from "e"
    const f = await import('./f.ts')
    // import { x } from 'x'
    /* import 'y' */
    const message = 'an import from far away'
  `
  assert.deepEqual(importsOf(text).sort(), ['../b.ts', './a.ts', './c.ts', './f.ts', 'd', 'e'])
})

const cases: readonly (readonly [file: SourceFile, violation: RegExp | undefined])[] = [
  [{ path: 'control/model/a.ts', text: `import { b } from './b.ts'` }, undefined],
  [{ path: 'control/layout/a.ts', text: `import type { B } from '../model/types.ts'` }, undefined],
  [
    { path: 'control/model/a.ts', text: `import { b } from '../layout/b.ts'` },
    /may not import control\/layout\/b\.ts/,
  ],
  [
    { path: 'control/model/a.ts', text: `import { readFileSync } from 'node:fs'` },
    /is pure, and imports node:fs/,
  ],
  [{ path: 'control/layout/a.ts', text: `const now = Date.now()` }, /is pure, and uses Date\.now/],
  [{ path: 'control/layout/a.ts', text: `// Date.now() would be wrong here` }, undefined],
  [{ path: 'control/dataplane/bpf/a.ts', text: `import { b } from '../iptables/b.ts'` }, /may not import/],
  [{ path: 'control/dataplane/iptables/a.ts', text: `import { b } from '../bpf/b.ts'` }, /may not import/],
  [{ path: 'control/dataplane/netfilter/a.ts', text: `import { b } from '../bpf/b.ts'` }, /may not import/],
  [{ path: 'control/dataplane/bpf/a.ts', text: `import { b } from '../netfilter/b.ts'` }, undefined],
  [{ path: 'control/dataplane/iptables/a.ts', text: `import { b } from '../netfilter/b.ts'` }, undefined],
  [{ path: 'control/dataplane/choose.ts', text: `import { b } from './bpf/b.ts'` }, undefined],
  [{ path: 'control/dataplane/bpf/a.ts', text: `import { openPinnedMap } from 'libbpf-ts'` }, undefined],
  [
    { path: 'control/source/files/a.ts', text: `import { openPinnedMap } from 'libbpf-ts'` },
    /may not import libbpf-ts/,
  ],
  [{ path: 'control/config/a.ts', text: `import { b } from '../model/b.ts'` }, undefined],
  [{ path: 'control/config/a.ts', text: `import { b } from '../cli/b.ts'` }, /may not import/],
  [{ path: 'control/sync/a.ts', text: `import { B } from '../dataplane/bpf/b.ts'` }, /may not import/],
  [{ path: 'control/compose/a.ts', text: `import { FakeKernel } from 'libbpf-ts/fake'` }, /is for tests/],
  [{ path: 'tools/cases/a.ts', text: `import { FakeKernel } from 'libbpf-ts/fake'` }, undefined],
  [{ path: 'control/cli/a.ts', text: `import '../main.ts'` }, /imports control\/main\.ts, which nothing may/],
  [{ path: 'control/cli/a.ts', text: `import '../compose/b.ts'` }, /may not import control\/compose\/b\.ts/],
  [{ path: 'control/compose/a.ts', text: `import './b.ts'` }, undefined],
  [{ path: 'control/main.ts', text: `import './dataplane/bpf/b.ts'` }, undefined],
  [{ path: 'loader/src/a.ts', text: `import '../../control/layout/b.ts'` }, /may not import/],
  [{ path: 'elsewhere/a.ts', text: '' }, /in no room/],
  [{ path: 'control/node/a.ts', text: `let count = 0` }, /module-level `let`/],
]

test('each rule, on a file that keeps it or breaks it', () => {
  for (const [file, violation] of cases) {
    const found = violations([file])
    if (violation === undefined) assert.deepEqual(found, [])
    else assert.match(found.join('\n'), violation)
    const exempt = { ...file, path: file.path.replace(/\.ts$/, '.test.ts') }
    assert.deepEqual(violations([exempt]), [])
  }
})

test('a package with one door is imported by one file', () => {
  const door = { path: 'control/log.ts', text: `import pino from 'pino'` }
  assert.deepEqual(violations([door]), [])
  const second = { path: 'control/server/a.ts', text: `import type { Logger } from 'pino/types'` }
  assert.match(
    violations([door, second]).join(),
    /pino: imported by control\/log\.ts and control\/server\/a\.ts/,
  )
  const parser = { path: 'tools/gen/a.ts', text: `import protobuf from 'protobufjs'` }
  const runtime = { path: 'control/source/a.ts', text: `import protobuf from 'protobufjs/minimal.js'` }
  assert.deepEqual(violations([parser, runtime]), [])
  const another = { path: 'control/source/b.ts', text: runtime.text }
  assert.match(
    violations([parser, runtime, another]).join(),
    /^protobufjs\/minimal\.js: imported by control\/source\/a\.ts and control\/source\/b\.ts/,
  )
})
