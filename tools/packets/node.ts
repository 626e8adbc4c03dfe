/** A node for tests: the datapath, its devices and addresses known to it, ready for services. */

import assert from 'node:assert/strict'
import { dropReasonNames, type Event } from '../../control/layout/generated.ts'
import { readdressed } from './build.ts'
import {
  createDatapath,
  type Datapath,
  type DatapathOptions,
  type DropReason,
  type Outcome,
} from './datapath.ts'
import { BRIDGE, type NodeDevice, POINT, PORT1, PORT2, UPLINK } from './own-network.ts'
import { macText } from './read.ts'
import { ServiceWriter } from './services.ts'

const NO_MAC = '00:00:00:00:00:00'
/** The station at the other end of each device. */
export const NEIGHBOUR_MAC = '02:00:00:00:ee:01'

/** The node's addresses, all of which accept node ports. */
export const NODE_ADDRESS = '192.168.0.10'
export const BRIDGE_ADDRESS = '10.244.1.1'

/** What is counted too when a packet goes on, because no flow could be made of it. */
const NOT_PACKETS_ALONE: readonly DropReason[] = ['FLOWS_FULL', 'COLLISION']

export class TestNode implements Disposable {
  readonly datapath: Datapath
  readonly services: ServiceWriter
  readonly #told: Event[] = []

  /** `createTestNode` is the way to one. */
  constructor(datapath: Datapath) {
    this.datapath = datapath
    this.services = new ServiceWriter(datapath)
    for (const device of [UPLINK, BRIDGE, PORT1, PORT2, POINT]) this.services.addDevice(device)
    for (const address of [NODE_ADDRESS, BRIDGE_ADDRESS]) this.services.addNodeAddress(address)
  }

  /** A frame comes in on a device. One without a destination gets the MAC address that makes it for this node. */
  receive(device: NodeDevice, packet: Uint8Array, mark = 0): Outcome {
    const frame =
      macText(packet.subarray(0, 6)) === NO_MAC ? readdressed(packet, device.mac, NEIGHBOUR_MAC) : packet
    return this.datapath.run('ingress', frame, { ifindex: device.ifindex, mark })
  }

  /** A frame leaves by a device. */
  transmit(device: NodeDevice, packet: Uint8Array, mark = 0): Outcome {
    return this.datapath.run('egress', packet, { ifindex: device.ifindex, mark })
  }

  /** All that the programs told of so far. */
  events(): readonly Event[] {
    this.#told.push(...this.datapath.events())
    return this.#told
  }

  /** Whatever a test was about: of each reason that was counted there must be an event, and no event of another. */
  #checkEvents(): void {
    const told = new Set(this.events().map(({ reason }) => dropReasonNames[reason]))
    const counted = new Set<string>(Object.keys(this.datapath.drops()))
    for (const reason of NOT_PACKETS_ALONE) if (!told.has(reason)) counted.delete(reason)
    assert.deepEqual([...told].sort(), [...counted].sort(), 'the events are not of what was counted')
  }

  [Symbol.dispose](): void {
    try {
      this.#checkEvents()
    } finally {
      this.datapath[Symbol.dispose]()
    }
  }
}

/** Needs the devices of `createNodeDevices`. Throws as `createDatapath`. */
export function createTestNode(options: DatapathOptions = {}): TestNode {
  return new TestNode(createDatapath(options))
}
