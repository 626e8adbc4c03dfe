/** Maps of services with and without somebody, for the tests of what happens to UDP when a backend goes. */
import { viewOf } from '../../layout/bytes.ts'
import { ipv4Layout } from '../../layout/family.ts'
import { list } from '../../layout/generated.ts'
import type { BackendMaps } from './gone-backends.ts'

type ServiceMaps = Pick<BackendMaps, 'frontends' | 'nodeports' | 'lists'>

/** Every list has somebody; frontends are of no service. */
export const PEOPLED: ServiceMaps = {
  frontends: { lookup: () => undefined },
  nodeports: { lookup: () => undefined },
  lists: { lookup: () => listOf(1) },
}

/** All lists are empty, and only this IPv4 frontend is there; without an address a node port. */
export function deserted(frontend: { address?: Uint8Array; port: number }, service: number): ServiceMaps {
  const { address = new Uint8Array(4), port } = frontend
  const value = new Uint8Array(ipv4Layout.frontend.size)
  const empty = ipv4Layout.frontend.decode(viewOf(value), 0)
  ipv4Layout.frontend.encode({ ...empty, service }, viewOf(value), 0)
  /** Both keys end in the port, the protocol and a zero; only an address precedes them. */
  const expected = Uint8Array.of(
    ...(frontend.address === undefined ? [] : address),
    port >> 8,
    port & 0xff,
    17,
    0,
  )
  const lookup = (key: Uint8Array) => (Buffer.compare(key, expected) === 0 ? value : undefined)
  return { frontends: { lookup }, nodeports: { lookup }, lists: { lookup: () => listOf(0) } }
}

function listOf(count: number): Uint8Array {
  const word = new Uint8Array(list.size)
  list.encode({ first: 0, count }, viewOf(word), 0)
  return word
}
