import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { bundleHash, stamp } from './fresh.mjs'
import { isNewEnough, program } from './launch.mjs'

test('Node.js is new enough from 22.18 on', () => {
  assert.equal(isNewEnough('20.20.2'), false)
  assert.equal(isNewEnough('22.17.9'), false)
  assert.equal(isNewEnough('22.18.0'), true)
  assert.equal(isNewEnough('24.0.0'), true)
})

test('the bundle runs while it is the image of the sources, else the sources', () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-launch-'))
  try {
    mkdirSync(join(root, 'control'))
    mkdirSync(join(root, 'build'))
    writeFileSync(join(root, 'control/main.ts'), '// one')
    writeFileSync(join(root, 'build/sluice.mjs'), '')
    const sources = { node: '/node', script: join(root, 'control/main.ts') }
    assert.deepEqual(program(root, '24.0.0', '/node'), sources)
    stamp(root, 'bundle', bundleHash(root))
    assert.deepEqual(program(root, '24.0.0', '/node'), {
      node: '/node',
      script: join(root, 'build/sluice.mjs'),
    })
    writeFileSync(join(root, 'control/main.ts'), '// two')
    assert.deepEqual(program(root, '24.0.0', '/node'), sources)
    rmSync(join(root, 'control'), { recursive: true })
    assert.equal(program(root, '24.0.0', '/node').script, join(root, 'build/sluice.mjs'))
  } finally {
    rmSync(root, { recursive: true })
  }
})

/** A process that launches `program` as Node.js code, under the launcher. */
function launched(code: string, ...args: string[]) {
  const launcher = pathToFileURL(join(import.meta.dirname, 'launch.mjs')).href
  const script = `import { launch } from ${JSON.stringify(launcher)}
    launch(process.execPath, ['--input-type=module', '--eval', ${JSON.stringify(code)}, '--', ...process.argv.slice(1)])`
  return spawn(process.execPath, ['--input-type=module', '--eval', script, '--', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

test('arguments, output and the exit code pass through', async () => {
  const child = launched(
    'process.stdout.write(process.argv.slice(1).join()); process.exitCode = 7',
    'a b',
    'c',
  )
  const ended = once(child, 'exit')
  const chunks = await child.stdout.toArray()
  assert.deepEqual([Buffer.concat(chunks).toString(), await ended], ['a b,c', [7, null]])
})

test('a signal reaches the program, and a death by signal shows in the exit code', async () => {
  const polite = launched(
    `process.on('SIGTERM', () => process.exit(9)); process.stdout.write('ready'); setInterval(() => {}, 1000)`,
  )
  const politeEnd = once(polite, 'exit')
  await once(polite.stdout, 'data')
  polite.kill('SIGTERM')
  assert.deepEqual(await politeEnd, [9, null])

  const killed = launched(`process.kill(process.pid, 'SIGKILL')`)
  assert.deepEqual(await once(killed, 'exit'), [137, null])
})
