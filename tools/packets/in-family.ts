/** What a test needs for one family: a loop over `FAMILIES` puts the same test to both. */

import { describe } from 'node:test'
import { type IcmpFields, icmp, type TcpFields, tcp, type UdpFields, udp } from './build.ts'
import { createDatapath, type Datapath, type DatapathOptions } from './datapath.ts'
import { addressIn, type FamilyNumber } from './family.ts'
import { createTestNode, type TestNode } from './node.ts'

export interface InFamily {
  /** `describe` of node:test, with the family before the name. */
  readonly group: (name: string, suite: () => void) => void
  /** Of the address that the text stands for. */
  readonly addressBytes: (text: string) => Uint8Array
  readonly tcp: (fields: TcpFields) => Uint8Array
  readonly udp: (fields: UdpFields) => Uint8Array
  readonly icmp: (fields: IcmpFields) => Uint8Array
  readonly createDatapath: (options?: DatapathOptions) => Datapath
  readonly createTestNode: (options?: DatapathOptions) => TestNode
}

/** IPv4 addresses stand for their images in IPv6. */
export function inFamily(family: FamilyNumber): InFamily {
  return {
    group: (name, suite) => void describe(`IPv${family}: ${name}`, suite),
    addressBytes: (text) => addressIn(family, text),
    tcp: (fields) => tcp({ family, ...fields }),
    udp: (fields) => udp({ family, ...fields }),
    icmp: (fields) => icmp({ family, ...fields }),
    createDatapath: (options) => createDatapath({ family, ...options }),
    createTestNode: (options) => createTestNode({ family, ...options }),
  }
}
