import assert from 'node:assert/strict'
import { test } from 'node:test'
import { viewOf } from '../../layout/bytes.ts'
import { datapathState, sweep as sweepCodec } from '../../layout/generated.ts'
import { Sweeper } from './sweeper.ts'

/** A sweep program that is through after some calls; like the real one it moves the clock of the state on. */
function fakeKernel(callsNeeded: number) {
  const state = new Uint8Array(datapathState.size)
  const calls: number[] = []
  const program = {
    testRun: ({ context = new Uint8Array() }: { context?: Uint8Array }) => {
      const input = sweepCodec.decode(viewOf(context), 0)
      calls.push(input.now)
      viewOf(state).setUint32(0, input.now, true)
      const out = new Uint8Array(sweepCodec.size)
      const done = calls.length % callsNeeded === 0 ? 1 : 0
      sweepCodec.encode({ ...input, looked: 10, expired: 1, done }, viewOf(out), 0)
      return { returnValue: 0, data: new Uint8Array(), context: out, durationNs: 0 }
    },
  }
  return { state, calls, program: () => program, capacity: 100_000 }
}

test('a sweep calls the program until the whole table was looked at', async () => {
  const kernel = fakeKernel(3)
  const report = await new Sweeper({ ...kernel, clock: () => 0 }).sweep()
  assert.deepEqual(report, { looked: 30, expired: 3, now: 0 })
  assert.equal(kernel.calls.length, 3)
})

test('a table that never ends is left after as many calls as it has room for', async () => {
  const kernel = fakeKernel(Number.POSITIVE_INFINITY)
  await new Sweeper({ ...kernel, clock: () => 0 }).sweep()
  assert.equal(kernel.calls.length, Math.ceil(100_000 / 8192) + 1)
})

test('the clock goes on from where an earlier process left it, without losing parts of seconds', async () => {
  const kernel = fakeKernel(1)
  viewOf(kernel.state).setUint32(0, 5000, true)
  let now = 100_000
  const sweeper = new Sweeper({ ...kernel, clock: () => now })
  for (let i = 0; i < 4; i++) {
    now += 750
    await sweeper.sweep()
  }
  assert.deepEqual(kernel.calls, [5000, 5001, 5002, 5003])
})

test('however long nobody swept, flows age by no more than two seconds', async () => {
  const kernel = fakeKernel(1)
  let now = 0
  const sweeper = new Sweeper({ ...kernel, clock: () => now })
  now += 3_600_000
  assert.equal((await sweeper.sweep()).now, 2)
})

test('a second call joins the sweep that is under way', async () => {
  const kernel = fakeKernel(2)
  const sweeper = new Sweeper({ ...kernel, clock: () => 0 })
  const [first, second] = await Promise.all([sweeper.sweep(), sweeper.sweep()])
  assert.equal(first, second)
  assert.equal(kernel.calls.length, 2)
})

test('it knows how full the table was at the last sweep', async () => {
  const sweeper = new Sweeper({ ...fakeKernel(2), clock: () => 0 })
  assert.equal(sweeper.used, undefined)
  const { looked, expired } = await sweeper.sweep()
  assert.equal(sweeper.used, looked - expired)
})
