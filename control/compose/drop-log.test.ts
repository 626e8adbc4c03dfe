import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Ended } from '../dataplane/bpf/ended.ts'
import { dropReason, dropReasonNames } from '../layout/generated.ts'
import { createLog } from '../log.ts'
import { DropLog } from './drop-log.ts'

const WEB: Ended = {
  reason: dropReason.NO_ENDPOINT_REJECTED,
  protocol: 'TCP',
  source: { address: '10.0.0.7', port: 4000 },
  destination: { address: '10.96.0.10', port: 80 },
  service: {
    namespace: 'default',
    name: 'web',
    portName: 'http',
    protocol: 'TCP',
    family: 'ipv4',
  },
  ifindex: 3,
  process: 0,
}

function start(verbosity = 0) {
  const lines: string[] = []
  const counts = new Map<number, bigint>()
  let now = 0
  const dropLog = new DropLog({
    counts: (reason) => counts.get(reason) ?? 100n,
    log: createLog({ format: 'text', verbosity, write: (line) => lines.push(line.slice(13).trimEnd()) }),
    nowMs: () => now,
    deviceName: (ifindex) => (ifindex === 3 ? 'veth3' : undefined),
  })
  return {
    lines,
    /** At a moment, when so many packets of its reason have been counted. */
    ended: (nowMs: number, count: bigint, change: Partial<Ended> = {}) => {
      now = nowMs
      const ended = { ...WEB, ...change }
      counts.set(ended.reason, count)
      dropLog.ended(ended)
    },
  }
}

it('says what ended, why, what it is about, and where to look', () => {
  const { lines, ended } = start()
  ended(0, 101n)
  assert.deepEqual(lines, [
    'INFO  refused: the service has no endpoint that is ready; see its EndpointSlices and pods service=default/web:http protocol=TCP from=10.0.0.7:4000 to=10.96.0.10:80 device=veth3',
  ])
})

it('is quiet about the same service for a minute, and then says how many more there were', () => {
  const { lines, ended } = start()
  ended(0, 101n)
  ended(1, 102n)
  ended(59_999, 5000n, { source: { address: '10.0.0.8', port: 1 } })
  assert.equal(lines.length, 1)
  ended(60_000, 5101n)
  assert.equal(lines.length, 2)
  assert.match(lines[1] ?? '', / more=4999$/)
})

it('tells of another service, and of another reason, at once', () => {
  const { lines, ended } = start()
  const other = { ...WEB.service, name: 'api' } as Ended['service']
  ended(0, 101n)
  ended(0, 102n, { service: other })
  ended(0, 101n, { reason: dropReason.SOURCE_RANGE })
  assert.equal(lines.length, 3)
})

it('writes no more than ten lines a minute for a reason, whatever comes', () => {
  const { lines, ended } = start()
  for (let i = 0; i < 1000; i++) {
    const destination = { address: `10.96.1.${i % 250}`, port: 1000 + i }
    ended(i, BigInt(101 + i), { service: undefined, destination, reason: dropReason.UNALLOCATED })
  }
  assert.equal(lines.length, 10)
  ended(61_000, 1101n, { service: undefined, reason: dropReason.UNALLOCATED })
  assert.match(lines[10] ?? '', / more=990$/)
})

it('names the process of a call, the number of a device that is gone, and no service where none is', () => {
  const { lines, ended } = start()
  ended(0, 101n, { source: undefined, process: 77, ifindex: 0 })
  ended(0, 101n, { service: undefined, ifindex: 9, reason: dropReason.UNDEFINED_PORT })
  assert.match(lines[0] ?? '', / service=default\/web:http protocol=TCP process=77 to=10\.96\.0\.10:80$/)
  assert.match(lines[1] ?? '', / protocol=TCP from=10\.0\.0\.7:4000 to=10\.96\.0\.10:80 device=9$/)
})

it('has words for every reason, and keeps those that nobody can do anything about for --v 3', () => {
  const [quiet, loud] = [start(), start(3)]
  const reasons = Object.keys(dropReasonNames).map(Number).slice(1, -1)
  for (const reason of reasons) {
    quiet.ended(0, 101n, { reason })
    loud.ended(0, 101n, { reason })
  }
  assert.equal(loud.lines.length, reasons.length)
  assert.ok(loud.lines.every((line) => /^(INFO|DEBUG) +\S/.test(line)))
  assert.equal(quiet.lines.length, loud.lines.filter((line) => line.startsWith('INFO')).length)
  assert.ok(quiet.lines.length > 0 && quiet.lines.length < loud.lines.length)
})

it('knows no reason of a newer version, and says nothing', () => {
  const { lines, ended } = start(5)
  ended(0, 101n, { reason: 200 })
  ended(0, 101n, { reason: dropReason.NONE })
  assert.deepEqual(lines, [])
})
