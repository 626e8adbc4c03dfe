import assert from 'node:assert/strict'
import { it } from 'node:test'
import { dropReason } from '../layout/generated.ts'
import { DropReport } from './drop-report.ts'

function start() {
  const counts = new Map<number, bigint>([[dropReason.FLOWS_FULL, 7n]])
  const lines: [string, unknown][] = []
  let now = 0
  const report = new DropReport({
    counts: (reason) => counts.get(reason) ?? 0n,
    flowTables: [
      { name: 'flows4', entries: 1024 },
      { name: 'flows6', entries: 512 },
    ],
    log: { warn: (message, fields) => lines.push([message.split(': new')[0] ?? '', fields]) },
    nowMs: () => now,
  })
  return {
    lines,
    look: (nowMs: number, reason: number, count: bigint) => {
      now = nowMs
      counts.set(reason, count)
      report.look()
    },
  }
}

it('does not tell what was counted before it began', () => {
  const { lines, look } = start()
  look(0, dropReason.FLOWS_FULL, 7n)
  assert.deepEqual(lines, [])
})

it('tells a full flow table at once, then at most once a minute, with all that was refused meanwhile', () => {
  const { lines, look } = start()
  look(1000, dropReason.FLOWS_FULL, 9n)
  look(2000, dropReason.FLOWS_FULL, 20n)
  look(60_999, dropReason.FLOWS_FULL, 30n)
  look(61_000, dropReason.FLOWS_FULL, 30n)
  look(200_000, dropReason.FLOWS_FULL, 30n)
  const message = 'a flow table (flows4: 1024 entries, flows6: 512 entries; two a flow) is full'
  assert.deepEqual(lines, [
    [message, { packets: 2 }],
    [message, { packets: 21 }],
  ])
})

it('says nothing of refusals that the manifests ask for', () => {
  const { lines, look } = start()
  look(1000, dropReason.NO_ENDPOINT_REJECTED, 5n)
  assert.deepEqual(lines, [])
})
