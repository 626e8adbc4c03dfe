/**
 * `npm run bench`: measures what the design sets aims for, prints a table, and writes `results.json` and the table in
 * docs/performance.md. With names of groups it measures and prints these only, and writes nothing; but `cluster`, which
 * has to be asked for, has a table of its own there.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { measureCluster } from './cluster/cluster.ts'
import { measureConnections } from './connections.ts'
import { removePinsAtExit } from './datapath.ts'
import { measureIptables } from './iptables.ts'
import { thisMachine } from './machine.ts'
import { measurePackets } from './packets.ts'
import { type Finding, resultsJson, textTable, updatePage } from './result.ts'
import { measureScale } from './scale.ts'
import { measureSockets } from './sockets.ts'
import { measureSource } from './source.ts'

const RESULTS = path.join(import.meta.dirname, 'results.json')
const PAGE = path.join(import.meta.dirname, '../docs/performance.md')

const GROUPS: Readonly<Record<string, () => Promise<Finding[]>>> = {
  packets: measurePackets,
  sockets: measureSockets,
  connections: measureConnections,
  scale: measureScale,
  source: measureSource,
  iptables: measureIptables,
  cluster: measureCluster,
}
/** Takes as long as all others together. */
const ASKED_FOR = 'cluster'

async function main(wanted: readonly string[]): Promise<number> {
  const unknown = wanted.filter((name) => !(name in GROUPS))
  if (unknown.length > 0) {
    console.error(
      `bench: no group is called ${unknown.join(', ')}; there are: ${Object.keys(GROUPS).join(', ')}`,
    )
    return 2
  }
  if (process.getuid?.() !== 0) {
    console.error('bench: needs root, to load BPF programs: run it with sudo')
    return 2
  }
  removePinsAtExit()
  const findings: Finding[] = []
  for (const [name, measure] of Object.entries(GROUPS)) {
    if (wanted.length > 0 ? !wanted.includes(name) : name === ASKED_FOR) continue
    const start = performance.now()
    console.error(`${name} …`)
    const found = await measure()
    findings.push(...found)
    if (name === ASKED_FOR) writePage(found, `npm run bench -- ${name}`)
    console.error(`${name}: ${((performance.now() - start) / 1000).toFixed(1)} s`)
  }
  console.log(textTable(findings))
  if (wanted.length === 0) {
    writeFileSync(RESULTS, resultsJson(findings))
    writePage(findings)
  }
  return 0
}

function writePage(findings: readonly Finding[], command?: string): void {
  writeFileSync(PAGE, updatePage(readFileSync(PAGE, 'utf8'), findings, thisMachine(), command))
}

process.exitCode = await main(process.argv.slice(2))
