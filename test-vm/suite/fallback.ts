/**
 * What the daemon chooses by itself under this kernel, whether it says why, and whether it serves then. Not on the little
 * cluster: its dozen processes of Node.js take an emulated processor minutes. The guest itself is the node here.
 */

import { spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MAP_SIZES, until } from '../../tools/cluster/index.ts'
import type { Kernel } from '../kernels.ts'
import type { Outcome } from '../results.ts'
import { attempt, CLONE, end } from './run.ts'

const NODE = 'guest'
const SERVED = '10.77.1.2'
const CLUSTER_IP = '10.96.0.10'
const NODE_PORT = 30_080
const READY_LIMIT_MS = 60_000
const CONNECT_SECONDS = 30

/** Who asks, from which namespace, and for what. */
const ASKERS = [
  { name: 'the node', namespace: undefined, to: `${CLUSTER_IP}:80` },
  { name: 'a pod', namespace: 'asker', to: `${CLUSTER_IP}:80` },
  { name: 'a client outside', namespace: 'client', to: `10.77.3.1:${NODE_PORT}` },
] as const

/** A pod that serves, one that asks, a client: each at the end of a link of its own. */
const NAMESPACES = ['server', 'asker', 'client']

/** The words for it in the daemon's log. */
const SAYS = {
  iptables: /the dataplane is iptables/,
  'bpf by tcx': /attached to devices by tcx/,
  'bpf by clsact': /attached to devices by clsact/,
} as const

/** A daemon with `--proxy-mode auto`, asked by everybody. It changes the machine: for guests, which end afterwards. */
export async function fallback({ dataplane, because }: Kernel): Promise<Outcome[]> {
  const outcome = (name: string, good: boolean, detail: string): Outcome => {
    return { check: 'fallback', name, result: good ? 'passed' : 'failed', detail: good ? '' : detail }
  }
  setUp()
  const folder = mkdtempSync(join(tmpdir(), 'fallback-'))
  writeFileSync(join(folder, 'service.yaml'), OBJECTS.map((object) => JSON.stringify(object)).join('\n---\n'))
  const daemon = startDaemon(folder)
  try {
    const isReady = await until(
      async () => / ready: /.test(daemon.said()) || daemon.hasEnded(),
      READY_LIMIT_MS,
    )
    const said = daemon.said()
    if (!isReady || daemon.hasEnded()) return [outcome('starts with --proxy-mode auto', false, said)]
    return [
      outcome('starts with --proxy-mode auto', true, ''),
      outcome(`chooses ${dataplane}`, SAYS[dataplane].test(said), said),
      outcome(
        'says why',
        said.includes(because),
        `${JSON.stringify(because)} is not in what it said:\n${said}`,
      ),
      ...ASKERS.map(({ name, namespace, to }) => {
        const enter = namespace === undefined ? [] : ['netns', 'exec', namespace]
        const ask = ['socat', '-u', `TCP4:${to},connect-timeout=${CONNECT_SECONDS}`, '-']
        const [program = '', ...args] = namespace === undefined ? ask : ['ip', ...enter, ...ask]
        const { stdout, stderr } = attempt([program, ...args])
        return outcome(
          `serves ${name} at ${to}`,
          stdout.trim() === SERVED,
          `${stdout}${stderr}\n${end(daemon.said())}`,
        )
      }),
    ]
  } finally {
    daemon.stop()
  }
}

function setUp(): void {
  if (process.env['RESULTS'] === undefined) throw new Error('this is for guests: npm run vm')
  const links = NAMESPACES.flatMap((name, i) => [
    `link add ${name} type veth peer name eth0 netns ${name}`,
    `address add 10.77.${i + 1}.1/24 dev ${name}`,
    `link set ${name} up`,
  ])
  for (const name of NAMESPACES) attempt(['ip', 'netns', 'add', name])
  // A packet to a ClusterIP is translated after it is routed: there has to be a way.
  links.push('route add default via 10.77.3.2')
  attempt(['ip', '-batch', '-'], `${links.join('\n')}\n`)
  for (const [i, name] of NAMESPACES.entries()) {
    const lines = ['link set lo up', `address add 10.77.${i + 1}.2/24 dev eth0`, 'link set eth0 up']
    lines.push(`route add default via 10.77.${i + 1}.1`)
    attempt(['ip', '-n', name, '-batch', '-'], `${lines.join('\n')}\n`)
  }
  attempt(['sysctl', '-w', 'net.ipv4.ip_forward=1'])
  const serve = ['socat', '-U', 'TCP4-LISTEN:8080,fork,reuseaddr', `EXEC:echo ${SERVED}`]
  spawn('ip', ['netns', 'exec', 'server', ...serve], { stdio: 'ignore' }).unref()
}

const OBJECTS = [
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE },
    // On the link to the client: that makes it the one to the outside.
    status: { addresses: [{ type: 'InternalIP', address: '10.77.3.1' }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'default', name: 'web' },
    spec: {
      type: 'NodePort',
      clusterIP: CLUSTER_IP,
      clusterIPs: [CLUSTER_IP],
      ipFamilies: ['IPv4'],
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: NODE_PORT }],
    },
  },
  {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'default',
      name: 'web-1',
      labels: { 'kubernetes.io/service-name': 'web' },
    },
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: [{ addresses: [SERVED], nodeName: NODE, conditions: { ready: true } }],
  },
]

function startDaemon(folder: string) {
  const log = join(folder, 'daemon.log')
  const file = openSync(log, 'w')
  const sizes = Object.entries(MAP_SIZES).flatMap(([name, entries]) => ['--map-size', `${name}=${entries}`])
  const args = ['run', '--source', `files:${folder}`, '--node-name', NODE, '--proxy-mode', 'auto', ...sizes]
  const program = join(CLONE, 'build/sluice.mjs')
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', file, file] })
  closeSync(file)
  return {
    said: () => readFileSync(log, 'utf8'),
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    stop: () => child.kill('SIGKILL'),
  }
}
