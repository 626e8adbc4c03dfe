/** Real packets through the datapath, until it holds the flows that are to be measured. */
import { setTimeout as delay } from 'node:timers/promises'
import { viewOf } from '../control/layout/bytes.ts'
import { protocolNumber } from '../control/layout/family.ts'
import { flowDirection, flowKey4, flowKey6 } from '../control/layout/generated.ts'
import { parseEndpoint, type TcpFlags, tcp, udp } from '../tools/packets/build.ts'
import type { FamilyNumber } from '../tools/packets/family.ts'
import { type Packet, readPacket } from '../tools/packets/read.ts'
import type { BenchDatapath } from './datapath.ts'

/** As long as a long segment of text, far from the largest: the datapath reads only headers. */
const PAYLOAD = new Uint8Array(26)

/** Who talks to whom: `address:port` of the client, of the frontend, and of the backend that it got. */
export interface Flow {
  readonly family: FamilyNumber
  readonly protocol: 'TCP' | 'UDP'
  readonly client: string
  readonly frontend: string
  readonly backend: string
}

/** The next packet of the client. */
export function request({ family, protocol, client, frontend }: Omit<Flow, 'backend'>): Uint8Array {
  const ends = { family, from: client, to: frontend, data: PAYLOAD }
  return protocol === 'TCP' ? tcp({ ...ends, flags: 'ACK', sequence: 101, acknowledged: 501 }) : udp(ends)
}

/** The next packet of the backend. */
export function reply({ family, protocol, client, backend }: Flow): Uint8Array {
  const ends = { family, from: backend, to: client, data: PAYLOAD }
  return protocol === 'TCP' ? tcp({ ...ends, flags: 'ACK', sequence: 501, acknowledged: 127 }) : udp(ends)
}

export function syn(family: FamilyNumber, client: string, frontend: string): Uint8Array {
  return tcp({ family, from: client, to: frontend, flags: 'SYN', sequence: 100 })
}

/** Opens a connection by its three packets. Throws Error when the datapath does not hold it afterwards. */
export function establishTcp(datapath: BenchDatapath, client: string, frontend: string): Flow {
  const { dataplane, family } = datapath
  const opened = dataplane.program('ingress').testRun({ data: syn(family, client, frontend) })
  const backend = endsOf(readPacket(opened.data)).to
  const segment = (from: string, to: string, flags: TcpFlags, sequence: number, acknowledged: number) =>
    tcp({ family, from, to, flags, sequence, acknowledged })
  dataplane.program('egress').testRun({ data: segment(backend, client, 'SYN ACK', 500, 101) })
  dataplane.program('ingress').testRun({ data: segment(client, frontend, 'ACK', 101, 501) })
  const flow: Flow = { family, protocol: 'TCP', client, frontend, backend }
  if (!isConfirmed(datapath, flow))
    throw new Error(`${client} > ${frontend} is not in flows after its handshake`)
  return flow
}

/** A datagram, its answer, and datagrams until the client has talked for long enough to be believed. */
export async function establishUdp(datapath: BenchDatapath, client: string, frontend: string): Promise<Flow> {
  const { dataplane, family } = datapath
  const datagram = request({ family, protocol: 'UDP', client, frontend })
  const ingress = dataplane.program('ingress')
  const backend = endsOf(readPacket(ingress.testRun({ data: datagram }).data)).to
  const flow: Flow = { family, protocol: 'UDP', client, frontend, backend }
  dataplane.program('egress').testRun({ data: reply(flow) })
  const limit = AbortSignal.timeout(10_000)
  while (!isConfirmed(datapath, flow)) {
    if (limit.aborted)
      throw new Error(`${client} > ${frontend} is not in flows after ten seconds of datagrams`)
    await delay(100)
    ingress.testRun({ data: datagram })
  }
  return flow
}

/** `address:port` of both ends of a packet. */
export function endsOf({ ip, tcp, udp }: Packet): { readonly from: string; readonly to: string } {
  const ports = tcp ?? udp
  return {
    from: `${ip.source}:${ports?.sourcePort ?? 0}`,
    to: `${ip.destination}:${ports?.destinationPort ?? 0}`,
  }
}

function isConfirmed(datapath: BenchDatapath, { family, protocol, client, frontend }: Flow): boolean {
  const source = parseEndpoint(client, family)
  const destination = parseEndpoint(frontend, family)
  const codec = family === 4 ? flowKey4 : flowKey6
  const key = new Uint8Array(codec.size)
  codec.encode(
    {
      tuple: {
        source: source.address,
        destination: destination.address,
        sourcePort: source.port,
        destinationPort: destination.port,
      },
      protocol: protocolNumber[protocol],
      direction: flowDirection.INGRESS,
      zero: 0,
    },
    viewOf(key),
    0,
  )
  return datapath.dataplane.map(`flows${family}`).lookup(key) !== undefined
}
