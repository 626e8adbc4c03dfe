/** The Kubernetes source on a large cluster: from the API's bytes to the model's output, list and watch. */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { hear } from '../tools/soak/hear.ts'
import { percentile } from './measure.ts'
import type { Finding } from './result.ts'
import type { FromClient } from './source-child.ts'
import type { FromServer, ToServer } from './source-server.ts'

const SIZE = '10,000 × 10 from the API'
/** Fresh processes, for each way to list. */
const ROUNDS = 5
const CHANGES = { perSecond: 1000, seconds: 30 }
const ROOT = path.join(import.meta.dirname, '..')

type Loaded = Extract<FromClient, { readonly kind: 'loaded' }>

export async function measureSource(): Promise<Finding[]> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-source-'))
  // Packages that stay outside the bundle are looked for from where it lies.
  const program = path.join(ROOT, 'build', `.bench-source.${process.pid}`)
  const bundle = path.join(program, 'client.mjs')
  const kubeconfig = path.join(folder, 'kubeconfig')
  const server = fork(path.join(import.meta.dirname, 'source-server.ts'), [kubeconfig])
  try {
    const sources = path.join(import.meta.dirname, 'source-child.ts')
    execFileSync(process.execPath, [path.join(ROOT, 'tools/setup/bundle.mjs'), sources, bundle])
    await hear<FromServer>(server, 'listening')
    const findings: Finding[] = []
    for (const [way, served] of [
      ['list', false],
      ['streaming list', true],
    ] as const) {
      tell<ToServer>(server, { kind: 'streaming lists', served })
      const rounds: Loaded[] = []
      for (let i = 0; i < ROUNDS; i += 1) rounds.push(await load(bundle, kubeconfig))
      findings.push(...loadFindings(way, rounds))
    }
    return [...findings, ...(await measureChanges(server, bundle, kubeconfig))]
  } finally {
    await end(server)
    rmSync(program, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
  }
}

function loadFindings(way: string, rounds: readonly Loaded[]): Finding[] {
  const median = (of: (loaded: Loaded) => number): number => percentile(rounds.map(of), 0.5)
  return [
    {
      name: `${SIZE}, ${way}: first byte to desired state`,
      value: median((r) => r.seconds),
      unit: 's',
      aim: 1.5,
    },
    {
      name: `${SIZE}, ${way}: resident memory after`,
      value: median((r) => r.residentMB),
      unit: 'MB',
      aim: 150,
    },
    {
      name: `${SIZE}, ${way}: longest block of the event loop`,
      value: median((r) => r.blockMs),
      unit: 'ms',
      aim: 50,
    },
  ]
}

async function load(bundle: string, kubeconfig: string): Promise<Loaded> {
  const client = fork(bundle, [kubeconfig])
  try {
    return await hear<FromClient, 'loaded'>(client, 'loaded')
  } finally {
    await end(client)
  }
}

async function measureChanges(server: ChildProcess, bundle: string, kubeconfig: string): Promise<Finding[]> {
  const client = fork(bundle, [kubeconfig])
  try {
    await hear<FromClient>(client, 'loaded')
    tell<ToServer>(server, { kind: 'change', ...CHANGES })
    const { atUs: written } = await hear<FromServer, 'changed'>(server, 'changed')
    const { atUs: seen } = await askUntilSeen(client, written.length)
    const delaysMs = written.map((atUs, i) => ((seen[i] ?? Number.NaN) - atUs) / 1000)
    const name = `${SIZE}, ${CHANGES.perSecond.toLocaleString('en-US')} changes a second: written to model's output`
    return [
      { name: `${name}, median`, value: percentile(delaysMs, 0.5), unit: 'ms', aim: 5 },
      { name: `${name}, 99 %`, value: percentile(delaysMs, 0.99), unit: 'ms', aim: 20 },
    ]
  } finally {
    await end(client)
  }
}

/** A change that another one of the same service overtook counts as seen with that one: here there are none. */
async function askUntilSeen(
  client: ChildProcess,
  count: number,
): Promise<Extract<FromClient, { readonly kind: 'seen' }>> {
  for (;;) {
    tell(client, 'seen?')
    const answer = await hear<FromClient, 'seen'>(client, 'seen')
    if (answer.atUs.filter((atUs) => typeof atUs === 'number').length >= count) return answer
  }
}

function tell<M>(process: ChildProcess, message: M): void {
  process.send(message as object)
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}
