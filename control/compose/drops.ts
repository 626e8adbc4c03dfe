/** Follows what the programs end: all of it by their counters, some of it by their events. */

import { type RingReader, typedMap, u32, u64 } from 'libbpf-ts'
import type { Clock } from '../clock.ts'
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { layoutOf } from '../layout/family.ts'
import type { Logger } from '../log.ts'
import type { DetectedDevice } from '../node/detect-local.ts'
import { DropLog } from './drop-log.ts'
import { type DropCounts, DropReport } from './drop-report.ts'

export interface Drops {
  readonly counts: DropCounts
  /** To be called now and then. */
  look(): void
  /** The devices that events may name. */
  setDevices(devices: readonly DetectedDevice[]): void
  close(): void
}

export function keepDrops(parts: {
  readonly dataplane: BpfDataplane
  readonly log: Logger
  readonly clock: Clock
}): Drops {
  const { dataplane, log, clock } = parts
  const stats = typedMap(dataplane.map('drop_stats'), u32, u64)
  const counts: DropCounts = (reason) => stats.getPerCpu(reason).reduce((sum, count) => sum + count, 0n)
  const report = new DropReport({ counts, flowTables: flowTablesOf(dataplane), log, nowMs: clock.nowMs })
  const names = new Map<number, string>()
  const dropLog = new DropLog({
    counts,
    log,
    nowMs: clock.nowMs,
    deviceName: (ifindex) => names.get(ifindex),
  })
  const reader = readEvents(dataplane, dropLog, log)
  return {
    counts,
    look: () => report.look(),
    setDevices: (devices) => {
      names.clear()
      for (const { ifindex, name } of devices) names.set(ifindex, name)
    },
    close: () => reader?.close(),
  }
}

function flowTablesOf(dataplane: BpfDataplane): { readonly name: string; readonly entries: number }[] {
  return dataplane.families
    .map((family) => `flows${layoutOf(family).number}`)
    .map((name) => ({ name, entries: dataplane.map(name).maxEntries }))
}

/** What an earlier daemon did not read is not told. Without events all goes on: what ends is counted all the same. */
function readEvents(dataplane: BpfDataplane, dropLog: DropLog, log: Logger): RingReader | undefined {
  try {
    const reader = dataplane.map('events').readRing((record) => {
      const ended = dataplane.readEnded(record)
      if (ended !== undefined) dropLog.ended(ended)
    })
    reader.skip()
    reader.keepAlive(false)
    return reader
  } catch (error) {
    log.warn('cannot read what the programs tell of packets that end: they are counted, not told', {
      err: error,
    })
    return undefined
  }
}
