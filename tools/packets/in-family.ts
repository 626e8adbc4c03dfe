/** What a test needs for one family: a loop over `FAMILIES` puts the same test to both. */

import { describe } from 'node:test'
import {
  type IcmpFields,
  IP_HEADER,
  IPV6_HEADER,
  icmp,
  type TcpFields,
  tcp,
  type UdpFields,
  udp,
} from './build.ts'
import { createDatapath, type Datapath, type DatapathOptions } from './datapath.ts'
import { addressIn, type FamilyNumber, textIn } from './family.ts'
import { createTestNode, type TestNode } from './node.ts'

interface Message {
  readonly type: number
  readonly code: number
}

/** RFC 792. */
const ICMP_MESSAGES: Readonly<Record<'echoRequest' | 'portUnreachable', Message>> = {
  echoRequest: { type: 8, code: 0 },
  portUnreachable: { type: 3, code: 3 },
}
/** RFC 4443. */
const ICMPV6_MESSAGES: typeof ICMP_MESSAGES = {
  echoRequest: { type: 128, code: 0 },
  portUnreachable: { type: 1, code: 4 },
}

export interface InFamily {
  /** `describe` of node:test, with the family before the name. */
  readonly group: (name: string, suite: () => void) => void
  /** Of the address that the text stands for. */
  readonly addressBytes: (text: string) => Uint8Array
  /** The same as text, for programs that are given addresses. */
  readonly textOf: (text: string) => string
  /** Bytes of an IP header without options or extensions. */
  readonly ipHeader: number
  /** Types and codes of ICMP messages. */
  readonly messages: typeof ICMP_MESSAGES
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
    textOf: (text) => textIn(family, text),
    ipHeader: family === 4 ? IP_HEADER : IPV6_HEADER,
    messages: family === 4 ? ICMP_MESSAGES : ICMPV6_MESSAGES,
    tcp: (fields) => tcp({ family, ...fields }),
    udp: (fields) => udp({ family, ...fields }),
    icmp: (fields) => icmp({ family, ...fields }),
    createDatapath: (options) => createDatapath({ family, ...options }),
    createTestNode: (options) => createTestNode({ family, ...options }),
  }
}
