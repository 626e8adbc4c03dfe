/**
 * The daemon as the container that each way of installing makes of it: with these capabilities and no other, a root file
 * system that is read-only, and the system calls that container runtimes leave by default.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { capabilityNames, effectiveCapabilities } from '../loader/src/process.ts'
import type { ContainerLimits, Stage } from '../tools/cluster/index.ts'
import { NODES, patience, setStage, until } from '../tools/cluster/index.ts'
import { eventuallyFrom } from '../tools/scenarios/kit.ts'
import { manifest } from '../tools/scenarios/objects.ts'
import { fromChart, fromInstall, type PodSpec, podSpecOf } from './manifests.ts'
import { Pods } from './pods.ts'
import { alertRules, dashboardQueries, type Selector, selectorsOf } from './queries.ts'

const CLUSTER_IP = '10.97.0.1'
const NODE_PORT = 31_001
const PODS = ['p1', 'p3', 'p5', 'p6'] as const
const WEB = { name: 'web', clusterIP: CLUSTER_IP, nodePort: NODE_PORT, pods: PODS } as const
/** Nothing can be done with this address. */
const UNUSABLE = manifest({ name: 'bad', clusterIP: '10.97.0.2', externalIPs: ['192.0.2.999'] })

/** For telling a failure: starts are many, with mounts and filters before each. */
const LIMIT_MS = patience(240_000)

interface Way {
  readonly name: string
  readonly pod: PodSpec
  readonly dataplane: 'bpf' | 'iptables'
  /** What it says when it has taken away what the one before it left. */
  readonly takesOver?: RegExp
}

/** One after the other on one node, as somebody would who tries them all. */
const WAYS: readonly Way[] = [
  { name: 'iptables', pod: podSpecOf(fromChart({ proxyMode: 'iptables' })), dataplane: 'iptables' },
  {
    name: 'install.yaml, after iptables',
    pod: podSpecOf(fromInstall()),
    dataplane: 'bpf',
    takesOver: /removed the rules of the iptables dataplane/,
  },
  { name: 'old kernels', pod: podSpecOf(fromChart({ oldKernels: true })), dataplane: 'bpf' },
  { name: 'sockets of pods', pod: podSpecOf(fromChart({ podSockets: true })), dataplane: 'bpf' },
  {
    name: 'iptables, after eBPF',
    pod: podSpecOf(fromChart({ proxyMode: 'iptables' })),
    dataplane: 'iptables',
    takesOver: /removed what the eBPF dataplane had/,
  },
]

describe('the daemon with what its manifest gives it', () => {
  let stage: Stage
  let pods: Pods
  before(async () => {
    const options = { source: 'kubernetes', examples: ['nodes'], brNetfilter: 1 } as const
    stage = await setStage({ prefix: `slt${process.pid}`, ...options })
    pods = await Pods.prepare(stage)
  })
  after(async () => await stage?.[Symbol.asyncDispose]())

  /** The lines of `/metrics` on n1, by each dataplane's daemon. */
  const scraped: string[] = []

  /** After the end points have been asked that are counted. */
  async function scrape(): Promise<string> {
    const urls = ['10256/healthz', '10256/livez', '10249/metrics'].map((end) => `http://127.0.0.1:${end}`)
    const { stdout } = await pods.node.exec(['curl', '-s', ...urls])
    return stdout
  }

  async function routesLocalnet(): Promise<string> {
    const { stdout } = await stage.cluster
      .node('n1')
      .exec(['sysctl', '-n', 'net.ipv4.conf.all.route_localnet'])
    return stdout.trim()
  }

  /** The commands that only read work beside the daemon, with what it has. */
  async function assertTells(pod: PodSpec): Promise<void> {
    const words = { services: /scenario\/web/, backends: /scenario\/web/, flows: /\d flows?$/, probe: /eBPF/ }
    for (const [command, word] of Object.entries(words)) {
      const { code, stdout, stderr } = await pods.exec(pod, command)
      assert.equal(code, 0, `${command}: ${stderr}`)
      assert.match(stdout.trim(), word, command)
    }
  }

  for (const { name, pod, dataplane, takesOver } of WAYS) {
    test(`${name}: it starts, and connections are made`, async () => {
      stage.write('web', manifest(WEB))
      const daemon = pods.daemon(pod)
      try {
        await daemon.startUntilReady(LIMIT_MS)
        assertConfined(Number(daemon.pid), pods.limitsOf(pod))
        assert.match(daemon.said(), new RegExp(`the dataplane is ${dataplane}:`))
        if (takesOver !== undefined) await daemon.untilSaid(takesOver, LIMIT_MS)
        const { cluster } = stage
        // Nothing but rules of iptables needs it.
        assert.equal(await routesLocalnet(), dataplane === 'iptables' ? '1' : '0')
        const count = 60
        const asked = [
          [cluster.pod('p2'), `${CLUSTER_IP}:80`],
          [cluster.node('n1'), `${CLUSTER_IP}:80`],
          [cluster.node('n1'), `127.0.0.1:${NODE_PORT}`],
          [cluster.client, `${NODES.n1.ipv4}:${NODE_PORT}`],
        ] as const
        for (const [member, to] of asked) await eventuallyFrom(() => member.request({ to, count }), PODS)
        if (name.startsWith('install.yaml')) await assertTells(pod)
        stage.write('bad', UNUSABLE)
        stage.write('web', changedNow(manifest({ ...WEB, pods: [...PODS, 'p2'] })))
        const tellOfBoth = await until(async () => {
          const text = await scrape()
          scraped.push(text)
          return /^sluice_problems/m.test(text) && /^kubeproxy_network_programming/m.test(text)
        }, LIMIT_MS)
        assert.ok(tellOfBoth, 'the metrics tell of both')
      } finally {
        await daemon.stop()
      }
    })
  }

  test('a scrape of these daemons has all that the dashboard and the alert rules ask for', () => {
    const lines = scraped.flatMap((text) => text.split('\n')).filter((line) => !line.startsWith('#'))
    const selectors = [...alertRules().map(({ expr }) => expr), ...dashboardQueries()].flatMap(
      (query) => selectorsOf(query).selectors,
    )
    const lacking = selectors.filter((selector) => !lines.some((line) => fits(line, selector)))
    assert.deepEqual([...new Set(lacking.map((each) => JSON.stringify(each)))], [])
  })

  test('install.yaml: with any of its capabilities less it does not start, and says which', async () => {
    const pod = podSpecOf(fromInstall())
    const limits = pods.limitsOf(pod)
    for (const lacking of limits.capabilities) {
      const capabilities = limits.capabilities.filter((name) => name !== lacking)
      const daemon = pods.daemon(pod, { ...limits, capabilities })
      await assert.rejects(daemon.startUntilReady(LIMIT_MS), /ended: exit code 2/, `without ${lacking}`)
      await daemon.stop()
      assert.match(daemon.lastWords(1), new RegExp(`^sluice: this needs CAP_${lacking}: `))
    }
  })
})

test('install.yaml: the init container mounts the BPF file system where there is none, and once', () => {
  const [program = '', ...args] = podSpecOf(fromInstall()).initContainers[0]?.command ?? []
  const script = `
    while mountpoint -q /sys/fs/bpf; do umount -l /sys/fs/bpf; done
    "$@" && "$@"
    grep -c ' /sys/fs/bpf .* - bpf ' /proc/self/mountinfo`
  const argv = ['--mount', '--propagation', 'private', 'sh', '-ec', script, 'sh', program, ...args]
  assert.equal(execFileSync('unshare', argv, { encoding: 'utf8' }), '1\n')
})

/** As the controller of EndpointSlices notes when what it tells of has happened. */
function changedNow(text: string): string {
  const name = 'endpoints.kubernetes.io/last-change-trigger-time'
  return text.replace(
    '"name": "web-ipv4",',
    `"name": "web-ipv4", "annotations": { "${name}": "${new Date().toISOString()}" },`,
  )
}

/** Whether a line of a scrape is of this metric, and has these labels, but for those that Prometheus adds. */
function fits(line: string, { metric, labels }: Selector): boolean {
  if (!/^[{ ]/.test(line.slice(metric.length)) || !line.startsWith(metric)) return false
  const wanted = Object.entries(labels).filter(([name]) => name !== 'instance')
  // What is asked of a dataplane that is a fallback cannot be seen where each one fits.
  return wanted.every(([name, value]) => value === 'fallback' || line.includes(`${name}="${value}"`))
}

/** The process is held to it: no other capability, nothing of it that grows, no mount of the root that can be written. */
function assertConfined(pid: number, { capabilities, filtered, writable }: ContainerLimits): void {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const field = (name: string): string => new RegExp(`^${name}:\\s*(\\S+)$`, 'm').exec(status)?.[1] ?? ''
  // Where the tests themselves are in a container, root has not all of them.
  const given = capabilities.filter((name) => effectiveCapabilities().includes(name)).sort()
  for (const set of ['CapEff', 'CapPrm', 'CapBnd']) {
    assert.deepEqual(capabilityNames(BigInt(`0x${field(set)}`)).sort(), given, set)
  }
  assert.equal(field('NoNewPrivs'), '1')
  assert.equal(field('Seccomp'), filtered ? '2' : '0')
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').trimEnd().split('\n')
  const written = mounts
    .map((line) => line.split(' '))
    .filter(([, , , , path = '', options = '']) => /^rw\b/.test(options) && !/^\/(dev|proc)(\/|$)/.test(path))
  assert.deepEqual(
    [...new Set(written.map(([, , , , path]) => path))].sort(),
    writable.map(({ to }) => to).sort(),
  )
}
