import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { kernel } from 'libbpf-ts'
import { checkDescriptors, pinFolder, rootOnly } from '../../../loader/test/kit.ts'
import { viewOf } from '../../layout/bytes.ts'
import { familyLayouts } from '../../layout/family.ts'
import { type Flow4, flowDirection, flowFlag, flowState } from '../../layout/generated.ts'
import { addressBytes } from '../../model/address.ts'
import type { Family } from '../../model/types.ts'
import { dataplaneContract, startDataplane, WEB } from './dataplane-contract.ts'
import { openInspector } from './inspect.ts'
import { Sweeper } from './sweeper.ts'
import { servicePort, stateOf } from './test-kit.ts'

checkDescriptors()

const world = { kernel, pinFolder }

suite('the dataplane, in the kernel', rootOnly, () => dataplaneContract(world))

/** A client, a frontend and a backend of it. */
const FLOWS = {
  ipv4: { port: WEB, client: '10.0.0.50', frontend: '10.96.0.1', backend: '10.0.0.2' },
  ipv6: {
    port: servicePort('web', 'fd00:96::1', ['fd00::1', 'fd00::2'], { family: 'ipv6' }),
    client: 'fd00::50',
    frontend: 'fd00:96::1',
    backend: 'fd00::2',
  },
} as const

/** Both sides of a flow, as the programs write them. */
function flowSides(family: Family, clientPort: number, lastSeen: number): Flow4[] {
  const [client, frontend, backend] = (['client', 'frontend', 'backend'] as const).map((name) =>
    addressBytes(FLOWS[family][name]),
  )
  assert.ok(client && frontend && backend)
  const request = { source: client, sourcePort: clientPort, destination: frontend, destinationPort: 80 }
  const towards = { source: client, sourcePort: clientPort, destination: backend, destinationPort: 8080 }
  const reply = { source: backend, sourcePort: 8080, destination: client, destinationPort: clientPort }
  const answer = { source: frontend, sourcePort: 80, destination: client, destinationPort: clientPort }
  const side = (tuple: Flow4['to'], to: Flow4['to'], direction: number, flags: number): Flow4 => ({
    key: { tuple, protocol: 17, direction, zero: 0 },
    to,
    backend: 2,
    generation: 2,
    service: 1,
    ifindex: 3,
    lastSeen,
    created: 0,
    sequence: 0,
    state: flowState.ESTABLISHED,
    flags,
    syns: 0,
    reset: 0,
    traffic: 0,
  })
  return [
    side(request, towards, flowDirection.INGRESS, flowFlag.REQUEST | flowFlag.CONFIRMED),
    side(reply, answer, flowDirection.EGRESS, flowFlag.CONFIRMED),
  ]
}

for (const { family, number: suffix, flow: codec } of familyLayouts) {
  test(
    `a flow is shown once with all its addresses, and swept when both sides are old (${family})`,
    rootOnly,
    async () => {
      const { port: served, client, frontend, backend } = FLOWS[family]
      using root = pinFolder('flows')
      await using dataplane = await startDataplane(world, root.path, {
        constants: { udp_replied_seconds: 3 },
      })
      await dataplane.sync(stateOf([served]), undefined)
      const flows = dataplane.map(`flows${suffix}`)
      for (const port of [1000, 1001]) {
        for (const flow of flowSides(family, port, port === 1000 ? 0 : 100)) {
          const bytes = new Uint8Array(codec.size)
          codec.encode(flow, viewOf(bytes), 0)
          flows.update(bytes.subarray(0, flows.keySize), bytes)
        }
      }
      using inspector = openInspector(root.path)
      const seen = [...inspector.flows()].sort((a, b) => a.client.port - b.client.port)
      assert.deepEqual(
        seen.map(({ client }) => client.port),
        [1000, 1001],
      )
      assert.deepEqual(
        [
          seen[0]?.client.address,
          seen[0]?.frontend,
          seen[0]?.backend,
          seen[0]?.service?.name,
          seen[0]?.state,
        ],
        [client, { address: frontend, port: 80 }, { address: backend, port: 8080 }, 'web', 'established'],
      )
      let now = 0
      const sweeper = new Sweeper({
        program: () => dataplane.program(`sweep${suffix}`),
        state: dataplane.map(`state${suffix}`).memory(),
        capacity: flows.maxEntries,
        clock: () => now,
      })
      assert.equal((await sweeper.sweep()).looked, 4)
      for (let i = 0; i < 3; i++) {
        now += 2000
        await sweeper.sweep()
      }
      assert.deepEqual(
        [...inspector.flows()].map(({ client }) => client.port),
        [1001],
      )
    },
  )
}
