/** Objects as no API server would let them pass: a few fields of a good one are missing, of another type, or absurd. */

import type { Json, JsonObject } from '../apiserver/kinds.ts'
import type { Random } from '../soak/random.ts'

const TEXTS = [
  ...[
    '',
    ' ',
    'None',
    'null',
    'TCP',
    'udp',
    'SCTP',
    'ICMP',
    'IPv4',
    'IPv6',
    'FQDN',
    'Local',
    'Proxy',
    'ClientIP',
  ],
  ...[
    '0.0.0.0',
    '127.0.0.1',
    '255.255.255.255',
    '10.1.0.010',
    '10.1.0.256',
    '10.1.0',
    '10.1.0.1 ',
    '10.1.0.1/24',
  ],
  ...[
    '::',
    '::1',
    'fe80::1',
    'fe80::1%eth0',
    'fd00::5',
    'FD00:0::0005',
    '::ffff:10.1.0.5',
    'fd00::/129',
    '10.1.0.0/33',
  ],
  ...[
    '0/0',
    '0.0.0.0/0',
    '::/0',
    'not-a-cidr',
    ' 10.1.0.0/16',
    '10.1.0.5',
    '10.1.0.6',
    'node-a',
    'zone-a',
    'http',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    '\u0000',
    'ä'.repeat(40),
    'x'.repeat(5000),
    '2026-13-45T99:00:00Z',
  ],
]

const NUMBERS = [-1, 0, 1, 80, 8080, 30_080, 65_535, 65_536, 2 ** 31, 2 ** 53, 1.5, -0.5, 1e300]

/** Of another type than whatever is there. */
const SHAPES: readonly Json[] = [
  null,
  true,
  false,
  7,
  'text',
  [],
  {},
  [null],
  [[]],
  { name: 'x' },
  [1, 'a', {}],
]

/** One to four changes, each anywhere in it. The kind and the API version stay. */
export function mutated(object: JsonObject, random: Random): JsonObject {
  const copy = structuredClone(object)
  for (let left = random.between(1, 4); left > 0; left--) mutateIn(copy, random)
  return { ...copy, kind: object['kind'] ?? null, apiVersion: object['apiVersion'] ?? null }
}

/** Some of its bytes are others, lost or cut off. */
export function mutatedBytes(bytes: Buffer, random: Random): Buffer {
  let copy = Buffer.from(bytes)
  for (let left = random.between(1, 4); left > 0 && copy.length > 0; left--) {
    const at = random.between(0, copy.length - 1)
    const how = random.between(0, 3)
    if (how === 0) copy[at] = random.between(0, 255)
    else if (how === 1) copy[at] = (copy[at] ?? 0) ^ (1 << random.between(0, 7))
    else if (how === 2) copy = Buffer.concat([copy.subarray(0, at), copy.subarray(at + random.between(1, 4))])
    else copy = copy.subarray(0, at)
  }
  return copy
}

type Writable = Json[] | { [key: string]: Json }

/** Goes down a random way and changes what it meets there. */
function mutateIn(root: JsonObject, random: Random): void {
  let place: Writable = root as { [key: string]: Json }
  for (;;) {
    const keys = Object.keys(place)
    const key = keys.length === 0 ? undefined : random.pick(keys)
    if (key === undefined) return
    const value: Json | undefined = (place as Record<string, Json>)[key]
    const isInner = typeof value === 'object' && value !== null && Object.keys(value).length > 0
    if (isInner && random.chance(85)) {
      place = value as Writable
      continue
    }
    mutateAt(place, key, value, random)
    return
  }
}

function mutateAt(place: Writable, key: string, value: Json | undefined, random: Random): void {
  const fields = place as Record<string, Json>
  const what = random.between(0, 99)
  if (what < 15) {
    if (Array.isArray(place)) place.splice(Number(key), 1)
    else delete fields[key]
  } else if (what < 30 && Array.isArray(place) && value !== undefined) {
    place.push(structuredClone(value))
  } else if (what < 80) {
    fields[key] = typeof value === 'number' ? random.pick(NUMBERS) : random.pick(TEXTS)
  } else {
    fields[key] = structuredClone(random.pick(SHAPES))
  }
}
