import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book, explain, isGood, summaryLine } from './book.ts'

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
  told.rose({ at: 1500, count: 3 })
  assert.ok(isGood(told))
  told.failed('p4', 'ECONNRESET', 1000, 1001)
  assert.equal(told.count('lost'), 1)
  assert.ok(!isGood(told))
})

test('a counter explains each refusal once, and only those of its time', () => {
  const rises = [
    { at: 10_000, count: 5 },
    { at: 11_000, count: 1 },
  ]
  assert.equal(explain([{ at: 9000, count: 6 }], rises), 6)
  assert.equal(explain([{ at: 9000, count: 7 }], rises), 6)
  assert.equal(
    explain(
      [
        { at: 9000, count: 4 },
        { at: 10_500, count: 4 },
      ],
      rises,
    ),
    6,
  )
  assert.equal(explain([{ at: 1000, count: 1 }], rises), 0)
  assert.equal(explain([{ at: 20_000, count: 1 }], rises), 0)
})

test('an incident says what was going on', () => {
  const told = book()
  {
    using _ = told.doing('kills')
    told.failed('p4', 'TIMEOUT', 0, 1)
  }
  told.failed('p4', 'TIMEOUT', 0, 1)
  assert.deepEqual(
    told.incidents.map(({ during }) => during),
    [['kills'], []],
  )
})

test('the last line counts everything', () => {
  const told = book()
  Object.assign(told.total, { requests: 612_345, downloads: 34, streams: 12, datagrams: 1_234_567 })
  told.madeMore('kills', 98)
  told.madeMore('kills', 2)
  told.madeMore('SYNs', 1_000_000)
  told.failed('p4', 'ECONNREFUSED', 1000, 1001, 17)
  told.rose({ at: 1001, count: 17 })
  assert.equal(
    summaryLine(told),
    'soak: 612,345 requests, 34 downloads, 12 streams (1,234,567 datagrams), 100 kills, 0 upgrades, 0 rollouts, ' +
      '0 pods, 1,000,000 SYNs, 0 full tables: 0 lost, 0 misdirected, 17 refused (17 explained)',
  )
})
