import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planAdditions, settleAdditions } from '../../layout/additions.ts'
import { Believed } from '../../layout/believed.ts'
import { viewOf } from '../../layout/bytes.ts'
import { ipv4Layout } from '../../layout/family.ts'
import { type Flow4, flowDirection, flowFlag, flowState } from '../../layout/generated.ts'
import { KernelModel } from '../../layout/kernel-model.ts'
import { LoadRecount } from './load-recount.ts'
import { servicePort } from './test-kit.ts'
import { carryOut } from './writer.ts'

/** A service with two backends, ids 1 and 2, and tables that a test fills. */
class Lab {
  readonly loads = new Map<number, number>()
  readonly flows: Flow4[] = []
  readonly believed = new Believed(ipv4Layout, { services: 8, backends: 16, slots: 32 })
  readonly recount = new LoadRecount({
    believed: this.believed,
    flows: () => ({ chunks: () => this.#chunks(), lookup: (key) => this.#lookup(key) }),
    sockets: () => ({ chunks: () => [].values(), lookup: () => undefined }),
    loads: () => ({
      lookup: (key) => encoded(this.loads.get(viewOf(key).getUint32(0, true)) ?? 0),
      update: (key, value) =>
        void this.loads.set(viewOf(key).getUint32(0, true), viewOf(value).getInt32(0, true)),
    }),
  })

  constructor() {
    const wish = { key: 'test/web', ports: [servicePort('web', '10.96.0.1', ['10.0.0.1', '10.0.0.2'])] }
    const plan = planAdditions(this.believed, [wish], 0)
    carryOut(plan, this.believed.mirror, new KernelModel(ipv4Layout).targets)
    settleAdditions(this.believed, plan, 0)
  }

  /** Both sides of a confirmed flow. */
  addFlow(backend: number, port: number, replyState: number = flowState.ESTABLISHED): void {
    const client = Uint8Array.of(10, 9, 0, 1)
    const [to, frontend] = [Uint8Array.of(10, 0, 0, backend), Uint8Array.of(10, 96, 0, 1)]
    const { generation } = this.believed.mirror.backend(backend)
    const asked = { source: client, destination: frontend, sourcePort: port, destinationPort: 80 }
    const seen = { source: client, destination: to, sourcePort: port, destinationPort: 8080 }
    const back = { source: to, destination: client, sourcePort: 8080, destinationPort: port }
    const answer = { source: frontend, destination: client, sourcePort: 80, destinationPort: port }
    const common = { backend, generation, service: 1, ifindex: 1, lastSeen: 0, created: 0, sequence: 0 }
    const rest = { ...common, syns: 0, reset: 0, traffic: 0 }
    const key = (tuple: typeof asked, direction: number) => ({ tuple, protocol: 6, direction, zero: 0 })
    const { ESTABLISHED } = flowState
    const { INGRESS, EGRESS } = flowDirection
    this.flows.push(
      { ...rest, key: key(asked, INGRESS), to: seen, state: ESTABLISHED, flags: flowFlag.REQUEST },
      { ...rest, key: key(back, EGRESS), to: answer, state: replyState, flags: 0 },
    )
  }

  *#chunks() {
    const values = new Uint8Array(this.flows.length * ipv4Layout.flow.size)
    this.flows.forEach((flow, i) => {
      ipv4Layout.flow.encode(flow, viewOf(values), i * ipv4Layout.flow.size)
    })
    yield { keys: new Uint8Array(), values, count: this.flows.length }
  }

  #lookup(wanted: Uint8Array): Uint8Array | undefined {
    for (const flow of this.flows) {
      const key = new Uint8Array(ipv4Layout.flowKey.size)
      ipv4Layout.flowKey.encode(flow.key, viewOf(key), 0)
      if (Buffer.compare(key, wanted) !== 0) continue
      const value = new Uint8Array(ipv4Layout.flow.size)
      ipv4Layout.flow.encode(flow, viewOf(value), 0)
      return value
    }
    return undefined
  }
}

function encoded(load: number): Uint8Array {
  const value = new Uint8Array(4)
  viewOf(value).setInt32(0, load, true)
  return value
}

test('counts that are off twice in a row are mended, from the tables; what is right stays', async () => {
  const lab = new Lab()
  for (const port of [1, 2, 3]) lab.addFlow(1, port)
  lab.addFlow(1, 4, flowState.CLOSING)
  lab.addFlow(2, 5)
  lab.loads.set(1, 7).set(2, 1)
  assert.equal(await lab.recount.look(), 0, 'once may be a connection that came meanwhile')
  assert.equal(await lab.recount.look(), 1)
  assert.deepEqual(
    [...lab.loads],
    [
      [1, 3],
      [2, 1],
    ],
  )
  lab.loads.set(2, -3)
  await lab.recount.look()
  await lab.recount.look()
  assert.equal(lab.loads.get(2), 1)
})

test('what is off now in one direction, now in the other, is traffic', async () => {
  const lab = new Lab()
  lab.addFlow(1, 1)
  for (const load of [0, 2, 0, 2]) {
    lab.loads.set(1, load)
    assert.equal(await lab.recount.look(), 0)
  }
})
