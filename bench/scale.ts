/** A large cluster: from objects to the kernel in a fresh process, and through the daemon itself. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { runDaemon } from './daemon.ts'
import { pinRoot } from './datapath.ts'
import { percentile } from './measure.ts'
import type { Finding } from './result.ts'
import type { ScaleReport } from './scale-child.ts'

const SIZE = '10,000 × 10'
/** Fresh processes. */
const ROUNDS = 5

export async function measureScale(): Promise<Finding[]> {
  const reports = Array.from({ length: ROUNDS }, runChild)
  const median = (of: (report: ScaleReport) => number): number => percentile(reports.map(of), 0.5)
  const seconds = (of: (report: ScaleReport) => number): number => median(of) / 1000
  return [
    { name: `${SIZE}: programs and maps loaded`, value: seconds((r) => r.load), unit: 's' },
    { name: `${SIZE}: objects to desired state`, value: seconds((r) => r.model), unit: 's', aim: 1.5 },
    { name: `${SIZE}: desired state to kernel`, value: seconds((r) => r.sync), unit: 's' },
    { name: `${SIZE}: objects to kernel`, value: seconds((r) => r.model + r.sync), unit: 's', aim: 2 },
    {
      name: `${SIZE}: longest block of the event loop, kernel written`,
      value: median((r) => r.block),
      unit: 'ms',
      aim: 50,
    },
    {
      name: `${SIZE}: one endpoint changed, written, median`,
      value: median((r) => r.change.median),
      unit: 'ms',
      aim: 10,
    },
    {
      name: `${SIZE}: one endpoint changed, written, 99 %`,
      value: median((r) => r.change.p99),
      unit: 'ms',
      aim: 50,
    },
    {
      name: `${SIZE}: objects to kernel, resident memory of the process`,
      value: median((r) => r.resident),
      unit: 'MB',
    },
    ...(await measureDaemon()),
  ]
}

async function measureDaemon(): Promise<Finding[]> {
  const { readySeconds, residentMB } = await runDaemon(10_000, 10)
  return [
    { name: `${SIZE}: daemon started, all services in the kernel`, value: readySeconds, unit: 's', aim: 5 },
    { name: `${SIZE}: daemon, resident memory`, value: residentMB, unit: 'MB', aim: 200 },
  ]
}

function runChild(): ScaleReport {
  const root = pinRoot('scale')
  try {
    const program = path.join(import.meta.dirname, 'scale-child.ts')
    return JSON.parse(execFileSync(process.execPath, [program, root], { encoding: 'utf8' })) as ScaleReport
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}
