/** Where the daemon's memory goes, stage by stage of its start. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { OBJECT_FOLDER } from '../../tools/packets/datapath.ts'
import { pinRoot } from '../datapath.ts'
import type { ClusterStage } from './stage.ts'

const ROOT = path.join(import.meta.dirname, '../..')

/** Megabytes, after a collection. */
export interface MemoryStage {
  readonly name: 'program' | 'maps' | 'store' | 'desired state' | 'shadow'
  /** Alive in V8's heap. */
  readonly heapMB: number
  /** Alive outside of it: buffers. */
  readonly outsideMB: number
  /** Resident. */
  readonly residentMB: number
}

export interface MemoryReport {
  readonly stages: readonly MemoryStage[]
  /** Resident some seconds later, V8 told to settle. */
  readonly settledMB: number
}

/** Megabytes that each part keeps alive, and the rest of the process. */
export interface MemoryShare {
  readonly name: string
  readonly MB: number
}

const NAMES: Readonly<Record<MemoryStage['name'], string>> = {
  program: 'the program and its packages',
  maps: 'the programs and maps opened',
  store: 'the store of Services and EndpointSlices',
  'desired state': 'the desired state',
  shadow: 'the shadow of the maps',
}

/** What each stage has added to what is alive. */
export function sharesOf({ stages, settledMB }: MemoryReport, runtimeMB: number): MemoryShare[] {
  const alive = stages.map(({ heapMB, outsideMB }) => heapMB + outsideMB)
  const shares = stages.map(({ name }, i) => ({
    name: NAMES[name],
    MB: (alive[i] ?? 0) - (alive[i - 1] ?? 0),
  }))
  const known = runtimeMB + shares.reduce((sum, { MB }) => sum + MB, 0)
  return [
    { name: 'Node.js with nothing in it', MB: runtimeMB },
    ...shares,
    { name: 'machine code, libraries, and gaps between objects', MB: settledMB - known },
  ]
}

/** The stages in a process of their own, beside the API server of a stage. */
export function measureMemory(stage: ClusterStage): MemoryReport {
  // Packages that stay outside the bundle are looked for from where it lies.
  const folder = path.join(ROOT, 'build', `.bench-memory.${process.pid}`)
  const bundle = path.join(folder, 'memory.mjs')
  const pins = pinRoot('memory')
  try {
    const source = path.join(import.meta.dirname, 'memory-child.ts')
    execFileSync(process.execPath, [path.join(ROOT, 'tools/setup/bundle.mjs'), source, bundle])
    const argv = [process.execPath, '--expose-gc', bundle, stage.kubeconfig, OBJECT_FOLDER, pins]
    return JSON.parse(stage.network.run('node', argv)) as MemoryReport
  } finally {
    rmSync(folder, { recursive: true, force: true })
    rmSync(pins, { recursive: true, force: true })
  }
}

/** What Node.js alone takes, resident, less what is alive in its heap of V8's own. */
export function runtimeMB(): number {
  const program =
    'for (let i = 0; i < 2; i++) gc();' +
    'const { rss, heapUsed, external } = process.memoryUsage();' +
    'console.log((rss - heapUsed - external) / 2 ** 20)'
  return Number(execFileSync(process.execPath, ['--expose-gc', '-e', program], { encoding: 'utf8' }))
}
