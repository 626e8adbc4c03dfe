/** The daemon as it is shipped, on a large cluster, in a network namespace of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { EndpointSlice, Service } from '../control/model/types.ts'
import { cgroup2Mount } from '../tools/cluster/mounts.ts'
import { pinRoot } from './datapath.ts'
import { syntheticCluster } from './synthetic.ts'

const LAUNCHER = path.resolve(import.meta.dirname, '../tools/setup/sluice.mjs')
/** Services of one file of manifests. */
const FILE_SIZE = 100
const LIMIT_MS = 60_000
/** What the daemon says once the kernel holds everything. */
const READY = /ready/
/** How long it may settle before its memory is read. */
const SETTLE_MS = 3000

export interface DaemonReport {
  readonly readySeconds: number
  readonly residentMB: number
}

/** Starts a daemon on a synthetic cluster, waits until it is ready, and ends it. */
export async function runDaemon(services: number, endpoints: number): Promise<DaemonReport> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'sluice-bench-'))
  const cgroup = path.join(cgroup2Mount(), `slb${process.pid}`)
  const root = pinRoot('daemon')
  mkdirSync(cgroup)
  writeManifests(folder, services, endpoints)
  const start = performance.now()
  const child = spawn(
    'unshare',
    [
      ...['--net', process.execPath, LAUNCHER, 'run', '--source', `files:${folder}`],
      ...['--node-name', 'bench', '--bpf-root', root, '--cgroup-root', cgroup],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  try {
    await untilReady(child)
    const readySeconds = (performance.now() - start) / 1000
    await delay(SETTLE_MS)
    return { readySeconds, residentMB: residentMB(child.pid) }
  } finally {
    await end(child)
    rmSync(root, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
    rmdirSync(cgroup)
  }
}

async function untilReady(child: ChildProcess): Promise<void> {
  const said: string[] = []
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue
    createInterface({ input: stream }).on('line', (line) => {
      said.push(line)
      if (READY.test(line)) resolve()
    })
  }
  const fail = (what: string): void =>
    reject(new Error(`the daemon ${what}; it said:\n${said.slice(-20).join('\n')}`))
  child.once('exit', (code, signal) => fail(`ended with ${code ?? signal}`))
  const timer = setTimeout(() => fail(`was not ready after ${LIMIT_MS / 1000} s`), LIMIT_MS)
  try {
    await promise
  } finally {
    clearTimeout(timer)
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

/** Resident memory of a process, as the kernel counts it. */
function residentMB(pid: number | undefined): number {
  const kB = /^VmRSS:\s*(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kB) / 1024
}

/** The cluster as manifests in JSON, many to a file. */
function writeManifests(folder: string, services: number, endpoints: number): void {
  const cluster = syntheticCluster(services, endpoints)
  const objects = [...cluster.services].flatMap(([key, service]) => [
    serviceManifest(service),
    ...(cluster.slices.get(key) ?? []).map(sliceManifest),
  ])
  for (let i = 0; i < objects.length; i += FILE_SIZE * 2) {
    const items = objects.slice(i, i + FILE_SIZE * 2)
    const text = JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
    writeFileSync(path.join(folder, `services-${i / (FILE_SIZE * 2)}.json`), text)
  }
}

function serviceManifest({ namespace, name, clusterIPs, ports }: Service) {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name },
    spec: {
      type: 'ClusterIP',
      clusterIPs,
      ports: ports.map(({ name, protocol, port }) => ({ name, protocol, port })),
    },
  }
}

function sliceManifest({ namespace, name, serviceName, addressType, ports, endpoints }: EndpointSlice) {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace, name, labels: { 'kubernetes.io/service-name': serviceName } },
    addressType,
    ports,
    endpoints: endpoints.map(({ address }) => ({ addresses: [address], conditions: { ready: true } })),
  }
}
