import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { acquireNodeLock, NodeLockedError } from './lock.ts'

const unique = (label: string): string => `slt${process.pid.toString()}-${label}`

test('a second holder is refused and told who the first is', async () => {
  const name = unique('second')
  await using _lock = await acquireNodeLock(name)

  await assert.rejects(acquireNodeLock(name), (error) => {
    assert.ok(error instanceof NodeLockedError)
    assert.equal(error.code, 'NODE_LOCKED')
    assert.equal(error.holderPid, process.pid)
    assert.match(
      error.message,
      new RegExp(`process ${process.pid.toString()} holds the abstract socket @${name} `),
    )
    return true
  })
})

test('a released lock can be taken again', async () => {
  const name = unique('again')
  await (await acquireNodeLock(name)).release()
  await (await acquireNodeLock(name)).release()
})

test('a holder that is no sluice keeps the name, and no process id is made up', async () => {
  const name = unique('stranger')
  const stranger = createServer((socket) => socket.end('go away'))
  stranger.listen(`\0${name}`)
  await once(stranger, 'listening')
  try {
    await assert.rejects(acquireNodeLock(name), (error) => {
      assert.ok(error instanceof NodeLockedError)
      assert.equal(error.holderPid, undefined)
      return true
    })
  } finally {
    stranger.close()
  }
})

test('a process that is killed gives the lock back', async () => {
  const name = unique('killed')
  const module = JSON.stringify(new URL('./lock.ts', import.meta.url).href)
  const child = spawn(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      `const { acquireNodeLock } = await import(${module})
       await acquireNodeLock(${JSON.stringify(name)})
       console.log('held')
       process.stdin.resume()`,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  try {
    await once(child.stdout, 'data')
    await assert.rejects(acquireNodeLock(name), (error) => {
      assert.ok(error instanceof NodeLockedError)
      assert.equal(error.holderPid, child.pid)
      return true
    })
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await (await acquireNodeLock(name)).release()
})
