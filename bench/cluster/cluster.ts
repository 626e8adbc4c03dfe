/**
 * `npm run bench -- cluster`: the daemon beside a large cluster, seen from a pod. Its table and plots are in
 * docs/performance.md, between markers of their own.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { percentile } from '../measure.ts'
import { barPlot, distributionPlot } from '../plot.ts'
import { type Finding, formatNumber } from '../result.ts'
import { type Changes, measureChanges } from './changes.ts'
import { type FirstSync, firstSync } from './first-sync.ts'
import { type MemoryShare, measureMemory, runtimeMB, sharesOf } from './memory.ts'
import { measureNewPods, type NewPods, prepareNewPods } from './new-pods.ts'
import type { ClusterSize } from './protocol.ts'
import { ClusterStage } from './stage.ts'

const PLOTS = path.resolve(import.meta.dirname, '../../docs/plots')
const LARGE: ClusterSize = { services: 10_000, endpoints: 10 }
/** As many endpoints, for five times as many services. */
const LARGEST: ClusterSize = { services: 50_000, endpoints: 2 }
const STARTS = 3
const CHANGES = { kind: 'change', perSecond: 100, seconds: 30, probedEach: 10 } as const
const NEW_PODS = 1000

/** kube-proxy v1.36 in nftables mode, 10,000 × 10, same lab: of a range its better end. */
const KUBE_PROXY = { startSeconds: 18, changeMs: 4600, residentMB: 287 } as const

export async function measureCluster(): Promise<Finding[]> {
  const findings: Finding[] = [
    {
      name: 'what else the machine does: load average before',
      value: os.loadavg()[0] ?? Number.NaN,
      unit: '',
    },
  ]
  {
    await using stage = new ClusterStage()
    await stage.start(LARGE)
    prepareNewPods(stage.network)
    const starts: FirstSync[] = []
    for (let i = 0; i < STARTS; i++) {
      const { daemon, report } = await firstSync(stage, LARGE)
      starts.push(report)
      if (i < STARTS - 1) await daemon.stop()
      else {
        findings.push(...startFindings(LARGE, starts))
        const changes = await measureChanges(stage, CHANGES)
        findings.push(...changeFindings(changes))
        writePlot('changes', changesPlot(changes))
        const pods = measureNewPods(stage, NEW_PODS, LARGE.services)
        findings.push(...podFindings(await pods))
        await daemon.stop()
      }
      stage.forget()
    }
    const shares = sharesOf(measureMemory(stage), runtimeMB())
    findings.push(...memoryFindings(shares))
    writePlot('memory', memoryPlot(shares))
  }
  {
    await using stage = new ClusterStage()
    await stage.start(LARGEST)
    const { daemon, report } = await firstSync(stage, LARGEST)
    await daemon.stop()
    findings.push(...startFindings(LARGEST, [report]))
  }
  return findings
}

function sizeText({ services, endpoints }: ClusterSize): string {
  return `${formatNumber(services)} × ${endpoints}`
}

function startFindings(size: ClusterSize, starts: readonly FirstSync[]): Finding[] {
  const median = (of: (start: FirstSync) => number): number => percentile(starts.map(of), 0.5)
  const isMain = size === LARGE
  const name = (what: string): string => `${sizeText(size)}: ${what}`
  const aim = (value: number) => (isMain ? { aim: value } : {})
  const beside = (value: number) => (isMain ? { baseline: value } : {})
  return [
    {
      name: name('start to the first service answering'),
      value: median((start) => start.startToFirstMs) / 1000,
      unit: 's',
      ...beside(KUBE_PROXY.startSeconds),
    },
    {
      name: name('last byte of the list to the first service answering'),
      value: median((start) => start.lastByteToFirstMs) / 1000,
      unit: 's',
      ...aim(2),
    },
    {
      name: name('last byte of the list to all services answering'),
      value: median((start) => start.lastByteToAllMs) / 1000,
      unit: 's',
      ...aim(5),
    },
    {
      name: name('resident memory'),
      value: median((start) => start.residentMB),
      unit: 'MB',
      ...aim(200),
      ...beside(KUBE_PROXY.residentMB),
    },
    {
      name: name('longest block of the event loop until all is in the kernel'),
      value: median((start) => start.blockMs),
      unit: 'ms',
      ...aim(50),
    },
    {
      name: name('the same, but for the time that others had the CPU'),
      value: median((start) => start.blockCpuMs),
      unit: 'ms',
      ...aim(50),
    },
    {
      name: name('before: programs and maps loaded, at once'),
      value: median((start) => start.loadingMs),
      unit: 'ms',
    },
  ]
}

function changeFindings({ followMs, connections, failed }: Changes): Finding[] {
  const name = (what: string): string => `${sizeText(LARGE)}, ${CHANGES.perSecond} changes a second: ${what}`
  return [
    {
      name: name('an endpoint changed to all new connections following, median'),
      value: percentile(followMs, 0.5),
      unit: 'ms',
      aim: 10,
      baseline: KUBE_PROXY.changeMs,
    },
    { name: name('the same, 99 %'), value: percentile(followMs, 0.99), unit: 'ms', aim: 50 },
    {
      name: name(`of ${formatNumber(connections)} connections not answered`),
      value: failed,
      unit: '',
      aim: 0,
    },
  ]
}

function podFindings({ pods, leaked, lost, failed }: NewPods): Finding[] {
  const name = (what: string): string => `${formatNumber(pods)} new pods on a bridge: ${what}`
  return [
    { name: name('packets that nobody translated'), value: leaked, unit: '', aim: 0 },
    { name: name('first packets lost'), value: lost, unit: '', aim: 0 },
    { name: name('connections not answered'), value: failed, unit: '', aim: 0 },
  ]
}

function memoryFindings(shares: readonly MemoryShare[]): Finding[] {
  return shares.map(({ name, MB }) => ({
    name: `${sizeText(LARGE)}, memory: ${name}`,
    value: MB,
    unit: 'MB',
  }))
}

function changesPlot({ followMs }: Changes): string {
  return distributionPlot({
    title: `${sizeText(LARGE)}: an endpoint changed to all new connections following`,
    unit: 'ms',
    series: [{ name: 'Sluice, 100 changes a second', values: followMs }],
    marks: [
      { name: 'aim: median', value: 10 },
      { name: 'aim: 99 %', value: 50 },
      { name: 'kube-proxy v1.36, nftables: median', value: KUBE_PROXY.changeMs },
    ],
  })
}

function memoryPlot(shares: readonly MemoryShare[]): string {
  return barPlot({
    title: `${sizeText(LARGE)}: where the memory of the daemon goes`,
    unit: 'MB',
    bars: shares.map(({ name, MB }) => ({ name, value: Math.max(0, MB) })),
  })
}

function writePlot(name: string, picture: string): void {
  mkdirSync(PLOTS, { recursive: true })
  writeFileSync(path.join(PLOTS, `${name}.svg`), picture)
}
