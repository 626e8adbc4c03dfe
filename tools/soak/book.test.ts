import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book, isGood, summaryLine, unexplained } from './book.ts'

function book(): Book {
  const made = new Book()
  made.total.requests = 10
  made.serverBegins(1, 'web')
  made.serverBegins(2, 'web')
  made.serverBegins(3, 'short')
  return made
}

test('a connection that another group’s server answers, or nobody’s, is misdirected', () => {
  const told = book()
  told.went('tcp', 'web', 1000, 1, 5, 'p4')
  assert.ok(isGood(told))
  told.went('tcp', 'web', 1000, 3, 2, 'p4')
  told.went('tcp', 'web', 1000, 9, 1, 'p4')
  assert.equal(told.count('misdirected'), 3)
  assert.match(told.incidents[0]?.what ?? '', /p4: web was answered by server 3 \(short/)
  assert.ok(!isGood(told))
})

test('one that began after the kernels knew that the server ends is misdirected, a datagram only after its own end', () => {
  const told = book()
  told.serverEnds(1, 'tcp', 2000)
  told.went('tcp', 'web', 2000, 1, 1, 'p4')
  told.went('udp', 'web', 2001, 1, 1, 'p4')
  assert.equal(told.count('misdirected'), 0)
  told.went('tcp', 'web', 2001, 1, 1, 'p4')
  told.serverEnds(1, 'udp', 3000)
  told.went('udp', 'web', 3001, 1, 1, 'p4')
  assert.equal(told.count('misdirected'), 2)
})

test('a refusal is good where a counter tells of it, and what else ends is lost', () => {
  const told = book()
  told.failed('p4', 'ECONNREFUSED', 1000, 1001, 3)
  assert.ok(!isGood(told))
  told.rose({ from: 500, to: 1500, count: 3 })
  assert.ok(isGood(told))
  told.failed('p4', 'ECONNRESET', 1000, 1001)
  assert.equal(told.count('lost'), 1)
  assert.ok(!isGood(told))
})

test('a counter explains each refusal once, and only those of its time', () => {
  const rises = [
    { from: 9000, to: 10_000, count: 5 },
    { from: 10_000, to: 11_000, count: 1 },
  ]
  const left = (...happened: readonly (readonly [at: number, count: number])[]): number =>
    unexplained(
      happened.map(([at, count]) => ({ at, count })),
      rises,
    ).reduce((sum, { count }) => sum + count, 0)
  assert.equal(left([9000, 6]), 0)
  assert.equal(left([9000, 7]), 1)
  assert.equal(left([9000, 4], [10_500, 4]), 2)
  assert.equal(left([13_500, 2]), 1)
  assert.equal(left([1000, 1], [20_000, 2]), 3)
})

test('an incident says what was going on between its begin and its end', () => {
  const told = book()
  const over = told.begins('kills', 100)
  told.begins('rollouts', 300)
  over(200)
  for (const [begun, ended] of [
    [0, 99],
    [0, 100],
    [200, 299],
    [150, 400],
  ] as const)
    told.failed('p4', 'TIMEOUT', begun, ended)
  assert.deepEqual(
    told.incidents.map(({ during }) => during),
    [[], ['kills'], ['kills'], ['kills', 'rollouts']],
  )
})

test('the last line counts everything', () => {
  const told = book()
  Object.assign(told.total, { requests: 612_345, downloads: 34, streams: 12, datagrams: 1_234_567 })
  told.madeMore('kills', 98)
  told.madeMore('kills', 2)
  told.madeMore('SYNs', 1_000_000)
  told.failed('p4', 'ECONNREFUSED', 1000, 1001, 17)
  told.rose({ from: 1, to: 1001, count: 17 })
  assert.equal(
    summaryLine(told),
    'soak: 612,345 requests, 34 downloads, 12 streams (1,234,567 datagrams), 100 kills, 0 upgrades, 0 rollouts, ' +
      '0 pods, 1,000,000 SYNs, 0 full tables: 0 lost, 0 misdirected, 17 refused (17 explained)',
  )
})
