/** What the programs tell of packets and calls that they ended. Pure. */
import { viewOf } from '../../layout/bytes.ts'
import { familyOf, layoutOf, protocolOf } from '../../layout/family.ts'
import { event as eventCodec } from '../../layout/generated.ts'
import type { ServiceIdentity } from '../../layout/identity.ts'
import type { Mirror } from '../../layout/mirror.ts'
import { addressText } from '../../model/address.ts'
import type { Family, Protocol } from '../../model/types.ts'
import type { InspectedEndpoint } from './inspected.ts'

/** A packet, or a call of a socket, that was ended: one of many alike, see bpf/include/report.h. */
export interface Ended {
  /** `enum drop_reason`. */
  readonly reason: number
  readonly protocol: Protocol
  /** Who sent it. Undefined for a call, and its port 0 where a fragment does not tell. */
  readonly source: InspectedEndpoint | undefined
  readonly destination: InspectedEndpoint
  /** The service that has the destination; undefined where none has. */
  readonly service: ServiceIdentity | undefined
  /** Of the device at whose hook it was; 0 for a call. */
  readonly ifindex: number
  /** Of a call the process, as the kernel counts them; 0 for a packet. */
  readonly process: number
}

/**
 * Reads a record of `events`. Undefined for one that makes no sense to this version.
 *
 * @param mirrorOf What is known of the kernel's maps; undefined for a family that is not served.
 */
export function readEnded(
  record: Uint8Array,
  mirrorOf: (family: Family) => Mirror | undefined,
): Ended | undefined {
  if (record.length !== eventCodec.size) return undefined
  const event = eventCodec.decode(viewOf(record), 0)
  const family = familyOf(event.family)
  const protocol = protocolOf(event.protocol)
  if (family === undefined || protocol === undefined) return undefined
  const { addressSize } = layoutOf(family)
  const [source, destination] = [event.source, event.destination].map((bytes) =>
    bytes.subarray(0, addressSize),
  )
  if (source === undefined || destination === undefined) return undefined
  const { reason, ifindex, process } = event
  const isCall = process !== 0
  return {
    reason,
    protocol,
    source: isCall ? undefined : { address: addressText(source), port: event.sourcePort },
    destination: { address: addressText(destination), port: event.destinationPort },
    service: mirrorOf(family)?.serviceAt(destination, event.destinationPort, event.protocol),
    ifindex,
    process,
  }
}
