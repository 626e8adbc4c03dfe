import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { FakeKernel } from 'libbpf-ts/fake'
import { viewOf } from '../../layout/bytes.ts'
import { protocolNumber } from '../../layout/family.ts'
import { dropReason, type Event, event as eventCodec } from '../../layout/generated.ts'
import { addressBytes } from '../../model/address.ts'
import { BpfDataplane } from './dataplane.ts'
import { OBJECT_FOLDER, SMALL_MAPS, servicePort, stateOf } from './test-kit.ts'

/** An address as an event has it. */
function padded(address: string): Uint8Array {
  const bytes = new Uint8Array(16)
  bytes.set(addressBytes(address))
  return bytes
}

function recordOf(change: Partial<Event>): Uint8Array {
  const record = new Uint8Array(eventCodec.size)
  const usual: Event = {
    timeNs: 1n,
    source: padded('10.0.0.7'),
    destination: padded('10.96.0.10'),
    sourcePort: 4000,
    destinationPort: 80,
    ifindex: 3,
    process: 0,
    reason: dropReason.NO_ENDPOINT_REJECTED,
    protocol: protocolNumber.TCP,
    family: 4,
    direction: 0,
  }
  eventCodec.encode({ ...usual, ...change }, viewOf(record), 0)
  return record
}

suite('an event', async () => {
  const dataplane = new BpfDataplane({
    objectFolder: OBJECT_FOLDER,
    bpfRoot: '/sys/fs/bpf/slt',
    kernel: new FakeKernel(),
    mapSizes: SMALL_MAPS,
  })
  await dataplane.start()
  await dataplane.setNodeAddresses([{ address: '192.0.2.1', nodePort: true, loopback: false }])
  const frontends = [
    { kind: 'ClusterIP', address: '10.96.0.10', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30080 },
  ] as const
  const web = servicePort('web', '10.96.0.10', [], { portName: 'http', frontends })
  const six = servicePort('six', 'fd00::10', [], {
    family: 'ipv6',
    frontends: [{ kind: 'ClusterIP', address: 'fd00::10', port: 80 }],
  })
  await dataplane.sync(stateOf([web, six]), undefined)
  const serviceOf = (change: Partial<Event>) => dataplane.readEnded(recordOf(change))?.service?.name

  const ROWS: readonly (readonly [title: string, change: Partial<Event>, service: string | undefined])[] = [
    ['to a ClusterIP is about its service', {}, 'web'],
    ['to another port is about none', { destinationPort: 81 }, undefined],
    ['by another protocol is about none', { protocol: protocolNumber.UDP }, undefined],
    [
      'to a node port is about its service',
      { destination: padded('192.0.2.1'), destinationPort: 30080 },
      'web',
    ],
    [
      'to the same port of another host is about none',
      { destination: padded('192.0.2.2'), destinationPort: 30080 },
      undefined,
    ],
    [
      'of IPv6 is about the service of IPv6',
      { family: 6, source: padded('fd00::7'), destination: padded('fd00::10') },
      'six',
    ],
  ]
  for (const [title, change, service] of ROWS) {
    test(title, () => assert.equal(serviceOf(change), service))
  }

  test('of a packet has its ends and its device', () => {
    const { service: _, ...rest } = dataplane.readEnded(recordOf({})) ?? assert.fail()
    assert.deepEqual(rest, {
      reason: dropReason.NO_ENDPOINT_REJECTED,
      protocol: 'TCP',
      source: { address: '10.0.0.7', port: 4000 },
      destination: { address: '10.96.0.10', port: 80 },
      ifindex: 3,
      process: 0,
    })
  })

  test('of a call has the process and no source', () => {
    const ended = dataplane.readEnded(recordOf({ process: 77, ifindex: 0, sourcePort: 0 }))
    assert.deepEqual([ended?.source, ended?.process], [undefined, 77])
  })

  test('that makes no sense is none', () => {
    assert.equal(dataplane.readEnded(new Uint8Array(8)), undefined)
    assert.equal(dataplane.readEnded(recordOf({ family: 5 })), undefined)
    assert.equal(dataplane.readEnded(recordOf({ protocol: 1 })), undefined)
  })
})
