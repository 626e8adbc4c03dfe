import assert from 'node:assert/strict'
import { test } from 'node:test'
import { servicePort } from '../dataplane/bpf/test-kit.ts'
import { carryOut } from '../dataplane/bpf/writer.ts'
import type { ServicePort } from '../model/types.ts'
import { leftoverChanges, planAdditions, settleAdditions } from './additions.ts'
import type { TargetName } from './batches.ts'
import { Believed, GRACE_MS } from './believed.ts'
import { hasRemovals } from './change.ts'
import { ipv4Layout } from './family.ts'
import { backendState, frontendFlag } from './generated.ts'
import { KernelModel } from './kernel-model.ts'
import { planNodeAddresses } from './node-addresses.ts'
import { planRemovals, settleRemovals } from './removals.ts'

const CAPACITIES = { services: 8, backends: 16, slots: 32 }
const NODE = { address: '192.0.2.10', nodePort: true, loopback: false }

class Lab {
  readonly kernel = new KernelModel(ipv4Layout)
  believed = new Believed(ipv4Layout, CAPACITIES)
  now = 0

  /** Makes Service `test/NAME` have this port or none; returns what was refused. */
  set(name: string, port: ServicePort | undefined): string[] {
    const { believed, kernel } = this
    const wish = { key: `test/${name}`, ports: port === undefined ? [] : [port] }
    const plan = planAdditions(believed, [wish], this.now)
    const added = carryOut(plan, believed.mirror, kernel.targets)
    settleAdditions(believed, plan, this.now)
    const rest = plan.changes.filter((change, owner) => !added.failed.has(owner) && hasRemovals(change))
    const removals = planRemovals(believed, rest)
    const removed = carryOut(removals, believed.mirror, kernel.targets)
    settleRemovals(believed, removals, (owner) => removed.failed.has(owner), this.now)
    return [
      ...plan.refused.map(({ message }) => message),
      ...added.failed.values(),
      ...removed.failed.values(),
    ]
  }

  restart(): void {
    this.believed = new Believed(ipv4Layout, CAPACITIES)
    this.kernel.loadInto(this.believed.mirror)
    this.believed.adopt(this.now)
  }

  backends() {
    return [...this.kernel.maps.backends.values()].map((value) =>
      ipv4Layout.backend.decode(new DataView(value.buffer, value.byteOffset), 0),
    )
  }

  /** How many service ports each ClusterIP has. */
  clusterIps(): [address: string, services: number][] {
    return [...this.kernel.maps.cluster_ips.values()].map((value) => {
      const { address, services } = ipv4Layout.clusterIp.decode(
        new DataView(value.buffer, value.byteOffset),
        0,
      )
      return [address.join('.'), services]
    })
  }

  frontendFlags(): number[] {
    return [...this.kernel.maps.frontends.values()].map(
      (value) => ipv4Layout.frontend.decode(new DataView(value.buffer, value.byteOffset), 0).flags,
    )
  }
}

test('a backend in no list drains and keeps its generation when it comes back', () => {
  const lab = new Lab()
  const port = servicePort('a', '10.96.0.1', ['10.0.0.1', '10.0.0.2'])
  lab.set('a', port)
  const before = lab.backends()[0]
  lab.set('a', { ...port, cluster: [1] })
  assert.deepEqual(lab.backends()[0], { ...before, state: backendState.DRAINING, flags: 0 })
  lab.set('a', port)
  assert.deepEqual(lab.backends()[0], before)
})

test('a backend that no slice has is gone: coming back it is another one', () => {
  const lab = new Lab()
  lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.1']))
  lab.set('a', servicePort('a', '10.96.0.1', []))
  assert.deepEqual(
    lab.backends().map(({ state, generation }) => [state, generation]),
    [[backendState.GONE, 1]],
  )
  lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.1']))
  assert.deepEqual(
    lab.backends().map(({ state, generation }) => [state, generation]),
    [
      [backendState.GONE, 1],
      [backendState.ACTIVE, 2],
    ],
  )
})

test('the id of a gone backend is used again after the grace period', () => {
  const lab = new Lab()
  lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.1']))
  lab.set('a', servicePort('a', '10.96.0.1', []))
  lab.now += GRACE_MS
  lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.7']))
  assert.deepEqual(
    lab.backends().map(({ address, generation }) => [address.join('.'), generation]),
    [['10.0.0.7', 2]],
  )
})

test('a ClusterIP counts who has it, also when one of two services goes to another', () => {
  const lab = new Lab()
  const shared = servicePort('b', '10.96.0.1', [], { frontends: [] })
  lab.set('a', servicePort('a', '10.96.0.1', []))
  lab.set('b', shared)
  assert.deepEqual(lab.clusterIps(), [['10.96.0.1', 2]])
  lab.set('b', servicePort('b', '10.96.0.2', []))
  assert.deepEqual(lab.clusterIps(), [
    ['10.96.0.1', 1],
    ['10.96.0.2', 1],
  ])
  lab.set('b', shared)
  lab.set('b', undefined)
  assert.deepEqual(lab.clusterIps(), [['10.96.0.1', 1]])
  lab.set('a', servicePort('a', '10.96.0.3', []))
  assert.deepEqual(lab.clusterIps(), [['10.96.0.3', 1]])
})

test('an endpoint that is listed twice gets one id', () => {
  const lab = new Lab()
  assert.deepEqual(lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.1', '10.0.0.1'])), [])
  assert.equal(lab.backends().length, 1)
  assert.equal(planAdditions(lab.believed, [], 0).batches.length, 0)
})

test('when the backends do not fit the service keeps what it had, and others are not hindered', () => {
  const lab = new Lab()
  lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.1']))
  const many = Array.from({ length: 20 }, (_, i) => `10.0.1.${i}`)
  assert.deepEqual(lab.set('a', servicePort('a', '10.96.0.1', many)), [
    'all 16 entries of backends4 are in use: raise --map-size backends4=N',
  ])
  assert.deepEqual(
    lab.backends().map(({ address }) => address.join('.')),
    ['10.0.0.1'],
  )
  lab.now += GRACE_MS
  assert.deepEqual(lab.set('a', undefined), [])
  lab.now += GRACE_MS
  assert.deepEqual(lab.set('b', servicePort('b', '10.96.0.2', many.slice(0, 10))), [])
})

test('a service that gets no id is refused by name', () => {
  const lab = new Lab()
  for (let i = 1; i <= 7; i++)
    assert.deepEqual(lab.set(`s${i}`, servicePort(`s${i}`, `10.96.0.${i}`, [])), [])
  assert.deepEqual(lab.set('late', servicePort('late', '10.96.1.1', [])), [
    'test/late: all 8 entries of services are in use: raise --map-size services=N',
  ])
})

test('a name that does not fit is refused, and nothing of the service is written', () => {
  const lab = new Lab()
  const name = 'n'.repeat(64)
  const [message] = lab.set(name, servicePort(name, '10.96.0.1', ['10.0.0.1']))
  assert.match(message ?? '', /^the name "n+" has 64 bytes, at most 63 are possible$/)
  assert.equal(lab.kernel.maps.backends.size + lab.kernel.maps.frontends.size, 0)
})

test('a write that the kernel refuses stops its own service only, and is made up for', () => {
  const lab = new Lab()
  const ports = ['a', 'b', 'c'].map((name, i) => servicePort(name, `10.96.0.${i + 1}`, [`10.0.0.${i + 1}`]))
  let seen = 0
  lab.kernel.refuse = (target: TargetName) => {
    if (target === 'services' && seen++ % 3 === 1) throw new Error('no room')
  }
  const wishes = ports.map((port) => ({ key: `test/${port.name}`, ports: [port] }))
  const plan = planAdditions(lab.believed, wishes, 0)
  const { failed } = carryOut(plan, lab.believed.mirror, lab.kernel.targets)
  settleAdditions(lab.believed, plan, 0)
  assert.equal(failed.size, 1)
  assert.equal(lab.kernel.maps.frontends.size, 2)
  lab.kernel.refuse = () => {}
  for (const port of ports) assert.deepEqual(lab.set(port.name, port), [])
  assert.equal(lab.kernel.maps.frontends.size, 3)
})

test('what an interrupted removal left without a name is taken out at the next start', () => {
  const lab = new Lab()
  lab.set('a', servicePort('a', '10.96.0.1', ['10.0.0.1'], { sourceRanges: ['10.0.0.0/8'] }))
  lab.kernel.maps.service_names.clear()
  lab.restart()
  assert.deepEqual([...lab.believed.keys()], [])
  const removals = planRemovals(lab.believed, leftoverChanges(lab.believed))
  carryOut(removals, lab.believed.mirror, lab.kernel.targets)
  settleRemovals(lab.believed, removals, () => false, 0)
  for (const map of ['frontends', 'cluster_ips', 'source_ranges'] as const)
    assert.equal(lab.kernel.maps[map].size, 0)
  assert.deepEqual(
    lab.backends().map(({ state }) => state),
    [backendState.GONE],
  )
  assert.deepEqual(leftoverChanges(lab.believed), [])
})

test('node addresses make the frontends on them the node’s own, whichever comes first', () => {
  const lab = new Lab()
  const port = servicePort('a', NODE.address, ['10.0.0.1'])
  const apply = (addresses: readonly (typeof NODE)[]) => {
    const outcome = carryOut(
      planNodeAddresses(lab.believed, addresses),
      lab.believed.mirror,
      lab.kernel.targets,
    )
    return outcome.written + outcome.deleted
  }
  lab.set('a', port)
  assert.deepEqual(lab.frontendFlags(), [0])
  assert.ok(apply([NODE]) > 0)
  assert.deepEqual(lab.frontendFlags(), [frontendFlag.ON_NODE])
  assert.equal(lab.kernel.maps.cluster_ips.size, 0, 'its other ports are left to their owner')
  assert.equal(apply([NODE]), 0)
  lab.set('a', undefined)
  lab.set('a', port)
  assert.deepEqual(lab.frontendFlags(), [frontendFlag.ON_NODE])
  assert.ok(apply([]) > 0)
  assert.deepEqual(lab.frontendFlags(), [0])
  assert.equal(lab.kernel.maps.cluster_ips.size, 1)
  assert.equal(lab.kernel.maps.node_addresses.size, 0)
})

test('of the node’s addresses those of the family are written', () => {
  const lab = new Lab()
  carryOut(
    planNodeAddresses(lab.believed, [NODE, { ...NODE, address: '2001:db8::1' }]),
    lab.believed.mirror,
    lab.kernel.targets,
  )
  assert.equal(lab.kernel.maps.node_addresses.size, 1)
})

test('a ClusterIP knows how many service ports it has', () => {
  const lab = new Lab()
  const users = () =>
    [...lab.kernel.maps.cluster_ips.values()].map(
      (value) => ipv4Layout.clusterIp.decode(new DataView(value.buffer, value.byteOffset), 0).services,
    )
  lab.set('a', servicePort('a', '10.96.0.1', []))
  lab.set(
    'b',
    servicePort('b', '10.96.0.1', [], {
      frontends: [{ kind: 'ClusterIP', address: '10.96.0.1', port: 443 }],
    }),
  )
  assert.deepEqual(users(), [2])
  lab.set('a', undefined)
  assert.deepEqual(users(), [1])
  lab.set('b', undefined)
  assert.deepEqual(users(), [])
})
