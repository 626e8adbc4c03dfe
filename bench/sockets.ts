/** What the socket hooks cost a process of the node that connects. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { cgroup2Mount } from '../tools/cluster/mounts.ts'
import type { Finding } from './result.ts'
import type { SocketReport } from './sockets-child.ts'

export async function measureSockets(): Promise<Finding[]> {
  const report = runChild()
  return (['udp', 'tcp'] as const).flatMap((protocol) => {
    const { plain, past, through } = report[protocol]
    const name = `${protocol.toUpperCase()} socket opened, connected, closed`
    return [
      { name: `${name}: to an endpoint, with the hooks attached`, value: past, unit: 'ns', baseline: plain },
      { name: `${name}: to a frontend`, value: through, unit: 'ns', baseline: plain },
      { name: `${name}: frontend by endpoint`, value: through / plain, unit: 'ratio' },
    ]
  })
}

/** In a cgroup and a network namespace that end with it. */
function runChild(): SocketReport {
  const cgroup = path.join(cgroup2Mount(), `slb${process.pid}-sockets`)
  const join = `echo $$ > '${cgroup}/cgroup.procs' && exec "$@"`
  const program = [process.execPath, path.join(import.meta.dirname, 'sockets-child.ts'), cgroup]
  mkdirSync(cgroup)
  try {
    const output = execFileSync('unshare', ['--net', 'sh', '-c', join, 'sh', ...program], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    return JSON.parse(output) as SocketReport
  } finally {
    rmdirSync(cgroup)
  }
}
