/** What the kernel holds is what the manifests say, by our own command and by anybody's. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { pinPath } from '../../control/dataplane/bpf/pins.ts'
import type { Stage } from '../cluster/index.ts'
import { PODS } from '../cluster/index.ts'
import { eventually, sluice, startNodes } from './kit.ts'
import type { ServicePlan } from './objects.ts'
import { manifest } from './objects.ts'

const SERVICES: readonly ServicePlan[] = [
  { name: 'web', clusterIP: '10.97.0.1', nodePort: 31_001, pods: ['p1', 'p3', 'p5'] },
  { name: 'sticky', clusterIP: '10.97.0.2', port: 8443, pods: ['p2', 'p6'], affinitySeconds: 77 },
  { name: 'dns', clusterIP: '10.97.0.3', port: 53, protocol: 'UDP', nodePort: 31_003, pods: ['p4'] },
  { name: 'empty', clusterIP: '10.97.0.4' },
]

interface Fact {
  readonly namespace: string
  readonly name: string
  readonly portName: string
  readonly protocol: string
  readonly family: string
  readonly frontends: readonly { kind: string; address: string | null; port: number }[]
  readonly cluster: readonly { address: string; port: number }[]
  readonly affinitySeconds: number
}

/** What `sluice services -o json` must say of a service. */
function expected(plan: ServicePlan): Fact {
  const protocol = plan.protocol ?? 'TCP'
  return {
    namespace: 'scenario',
    name: plan.name,
    portName: 'main',
    protocol,
    family: 'ipv4',
    frontends: [
      { kind: 'ClusterIP', address: plan.clusterIP, port: plan.port ?? 80 },
      ...(plan.nodePort === undefined ? [] : [{ kind: 'NodePort', address: null, port: plan.nodePort }]),
    ],
    cluster: (plan.pods ?? [])
      .map((pod) => ({ address: PODS[pod].ipv4, port: protocol === 'TCP' ? 8080 : 5353 }))
      .toSorted(byAddress),
    affinitySeconds: plan.affinitySeconds ?? 0,
  }
}

/** The order of a list is the model's to choose. */
function byAddress(a: { address: string }, b: { address: string }): number {
  return a.address < b.address ? -1 : 1
}

describe('what the kernel holds', () => {
  let stage: Stage
  before(async () => {
    stage = await startNodes({ services: SERVICES })
  })
  after(() => stage[Symbol.asyncDispose]())

  async function facts(): Promise<Fact[]> {
    const { stdout } = await sluice(stage.daemon('n1').node, 'services', '-o', 'json')
    const { services }: { services: readonly Fact[] } = JSON.parse(stdout)
    return services
      .map(({ namespace, name, portName, protocol, family, frontends, cluster, affinitySeconds }) => ({
        namespace,
        name,
        portName,
        protocol,
        family,
        frontends: frontends.map(({ kind, address, port }) => ({ kind, address, port })),
        cluster: cluster.toSorted(byAddress),
        affinitySeconds,
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  const wanted = (plans: readonly ServicePlan[]): Fact[] =>
    plans.map(expected).sort((a, b) => (a.name < b.name ? -1 : 1))

  test('sluice services shows the manifests, follows an edit, and needs no daemon', async () => {
    assert.deepEqual(await facts(), wanted(SERVICES))
    const edited = SERVICES.filter(({ name }) => name !== 'sticky').map(
      (plan): ServicePlan => (plan.name === 'empty' ? { ...plan, pods: ['p2'] } : plan),
    )
    stage.write('scenario', manifest(...edited))
    await eventually('the edit is in the kernel', async () => (await facts()).length === edited.length)
    assert.deepEqual(await facts(), wanted(edited))
    await stage.daemon('n1').kill()
    assert.deepEqual(await facts(), wanted(edited))
    stage.write('scenario', manifest(...SERVICES))
    await stage.daemon('n1').startUntilReady()
    assert.deepEqual(await facts(), wanted(SERVICES))
  })

  async function dump(map: string): Promise<unknown> {
    const path = pinPath(stage.daemon('n1').node.bpfRoot, map)
    return JSON.parse(
      (await stage.daemon('n1').node.exec(['bpftool', '-j', 'map', 'dump', 'pinned', path])).stdout,
    )
  }

  test('bpftool shows the frontends by names that a person can read', async () => {
    const entries = (await dump('frontends4')) as readonly { formatted: { key: unknown; value: unknown } }[]
    assert.equal(entries.length, SERVICES.length)
    for (const { formatted } of entries) {
      assert.deepEqual(Object.keys(formatted.key as object), ['address', 'port', 'protocol', 'zero'])
      assert.deepEqual(Object.keys(formatted.value as object), ['key', 'service', 'kind', 'flags', 'zero'])
    }
    const addresses = entries.map(({ formatted }) =>
      (formatted.key as { address: { bytes: number[] } }).address.bytes.join('.'),
    )
    assert.deepEqual(addresses.sort(), SERVICES.map(({ clusterIP }) => clusterIP).sort())
  })

  interface Probe {
    readonly devices: readonly { name: string; class: string; why: string }[]
    readonly rules: readonly { tool: string; table: string; rule: string; means: string }[]
  }

  async function probe(...flags: readonly string[]): Promise<Probe> {
    const { stdout } = await sluice(stage.daemon('n1').node, 'probe', '-o', 'json', ...flags)
    return JSON.parse(stdout)
  }

  test('sluice probe classes a device as it is told to', async () => {
    const classOf = async (...flags: readonly string[]) => {
      const { devices } = await probe(...flags)
      const device = devices.find(({ name }) => name === 'eth0')
      return `${device?.class}: ${device?.why}`
    }
    assert.match(await classOf(), /^external: /)
    assert.equal(await classOf('--pod-interfaces', 'lo,eth*'), 'pod: --pod-interfaces has eth*')
    const told = ['--pod-interfaces', 'eth*', '--ignore-interfaces', 'eth?'] as const
    assert.equal(await classOf(...told), 'none: --ignore-interfaces has eth?')
  })

  test('rules of others that see less are named by sluice probe, and when the daemon starts', async () => {
    const daemon = stage.daemon('n1')
    const chain = 'type filter hook prerouting priority raw; policy accept;'
    const rules = 'tcp dport 31001 counter\n tcp dport 31001 accept\n tcp dport 22 accept'
    const input = `table inet firewall {\n chain raw {\n ${chain}\n ${rules}\n }\n}\n`
    assert.deepEqual((await probe()).rules, [])
    await daemon.node.exec(['nft', '-f', '-'], { input })
    try {
      const found = (await probe()).rules.map(({ tool, table, rule }) => `${tool} ${table}: ${rule}`)
      assert.equal(found.length, 2)
      assert.equal(found[1], 'nft firewall: tcp dport 31001 accept')
      assert.deepEqual((await probe('--service-node-port-range', '32000-32767')).rules, [])
      await daemon.stop()
      await daemon.startUntilReady()
      await daemon.untilSaid(/a rule of others does not see .* any more.*tcp dport 31001 accept/)
    } finally {
      await daemon.node.exec(['nft', 'delete', 'table', 'inet', 'firewall'])
    }
  })

  test('every pinned map can be dumped with names', async () => {
    const { node } = stage.daemon('n1')
    const { stdout } = await node.exec(['bpftool', '-j', 'map', 'show'])
    const shown: readonly { name: string; btf_id?: number; type: string }[] = JSON.parse(stdout)
    const names = [
      'frontends4',
      'nodeports4',
      'services',
      'lists',
      'backends4',
      'flows4',
      'affinity4',
      'devices',
    ]
    for (const name of names) {
      const maps = shown.filter((map) => map.name === name)
      assert.ok(maps.length > 0, `bpftool shows no map ${name}`)
      for (const map of maps) assert.ok(map.btf_id !== undefined, `map ${name} has no BTF`)
    }
  })
})
