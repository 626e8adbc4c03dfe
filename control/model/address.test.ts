import assert from 'node:assert/strict'
import { isIPv6 } from 'node:net'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  addressBytes,
  addressText,
  cidrContains,
  familyOf,
  hostPort,
  isSpecialAddress,
  parseAddress,
  parseCidr,
} from './address.ts'

describe('an address is read', () => {
  const readable: readonly [why: string, text: string, canonical: string][] = [
    ['a plain quad stays as it is', '10.96.0.1', '10.96.0.1'],
    ['zeros alone are no leading zeros', '0.0.0.0', '0.0.0.0'],
    ['leading zeros are decimal, not octal', '010.0.0.01', '10.0.0.1'],
    ['every octet may have them', '192.168.001.000', '192.168.1.0'],
    ['the highest address', '255.255.255.255', '255.255.255.255'],
    ['IPv6 is compressed', '2001:0DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['the longest run of zeros is the one that is compressed', '1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['a single zero group is written out', '2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['IPv4-mapped is IPv4', '::ffff:10.0.0.1', '10.0.0.1'],
    ['IPv4-mapped in hexadecimal is IPv4 too', '::ffff:a00:1', '10.0.0.1'],
    ['another dotted tail stays IPv6', '::1.2.3.4', '::102:304'],
    ['a dotted tail after groups', '64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
  ]
  for (const [why, text, canonical] of readable) {
    test(`${why}: ${text}`, () => {
      assert.deepEqual(parseAddress(text), { family: familyOf(canonical), text: canonical })
    })
  }
})

describe('no address', () => {
  const refused = [
    ...['', ' ', '10', '10.0.0', '10.0.0.', '.10.0.0', '10.0.0.0.1', '10.0.0.256', '1..2.3', '10.0.0.1 '],
    ...['10.0.0.1/8', '-1.0.0.0', '0x0a.0.0.1', 'localhost', ':', ':::', '1::2::3', '12345::', 'g::'],
    ...['fe80::1%eth0', '::1 ', '1:2:3:4:5:6:7', '::ffff:10.0.0.256', '::10.0.0', '[::1]'],
  ]
  for (const text of refused) {
    test(JSON.stringify(text), () => {
      assert.equal(parseAddress(text), undefined)
      assert.throws(() => addressBytes(text), { name: 'RangeError', message: /not an IP address/ })
    })
  }
})

const octet = fc.integer({ min: 0, max: 255 })
const bytes4 = fc.uint8Array({ minLength: 4, maxLength: 4 })
const bytes16 = fc.uint8Array({ minLength: 16, maxLength: 16 })
/** IPv6 with runs of zeros, where the compression has something to do. */
const sparse16 = fc.uint8Array({ minLength: 16, maxLength: 16, max: 1 })
const isMapped = (bytes: Uint8Array) => bytes.every((b, i) => i > 11 || b === (i < 10 ? 0 : 255))

describe('bytes and text', () => {
  test('bytes to text to bytes gives the bytes, and the text is canonical', () => {
    fc.assert(
      fc.property(fc.oneof(bytes4, bytes16, sparse16), (bytes) => {
        fc.pre(!(bytes.length === 16 && isMapped(bytes)))
        const text = addressText(bytes)
        assert.deepEqual([...addressBytes(text)], [...bytes])
        assert.deepEqual(parseAddress(text), { family: bytes.length === 4 ? 'ipv4' : 'ipv6', text })
      }),
    )
  })

  test('canonical IPv6 is what a URL makes of it', () => {
    fc.assert(
      fc.property(sparse16, (bytes) => {
        const groups = Array.from({ length: 8 }, (_, i) =>
          (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
        )
        assert.equal(`[${addressText(bytes)}]`, new URL(`http://[${groups.join(':')}]/`).hostname)
      }),
    )
  })

  test('any spelling of leading zeros gives the same IPv4 address', () => {
    const zeros = fc.integer({ min: 0, max: 3 })
    fc.assert(
      fc.property(
        fc.tuple(octet, octet, octet, octet),
        fc.tuple(zeros, zeros, zeros, zeros),
        (octets, pad) => {
          const text = octets.map((value, i) => '0'.repeat(pad[i] ?? 0) + value).join('.')
          assert.equal(parseAddress(text)?.text, octets.join('.'))
        },
      ),
    )
  })

  test('text of all kinds is an IPv6 address exactly when Node.js says so', () => {
    const part = fc.constantFrom('', ':', '::', '0', 'db8', 'ffff', '10000', '1.2.3.4', '.', 'g')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const text = parts.join('')
        // Leading zeros in a dotted tail are where we are more lenient on purpose.
        fc.pre(text.includes(':') && !/0\d+\./.test(text))
        assert.equal(parseAddress(text) !== undefined, isIPv6(text), text)
      }),
      { numRuns: 2000 },
    )
  })

  test('a wrong number of bytes is refused', () => {
    assert.throws(() => addressText(new Uint8Array(5)), {
      name: 'RangeError',
      message: /4 or 16 bytes, not 5/,
    })
  })
})

describe('a CIDR', () => {
  test('host bits are cleared, spaces trimmed, leading zeros decimal', () => {
    assert.equal(parseCidr(' 203.0.113.7/25')?.text, '203.0.113.0/25')
    assert.equal(parseCidr('010.1.2.3/8')?.text, '10.0.0.0/8')
    assert.equal(parseCidr('2001:DB8::1/32')?.text, '2001:db8::/32')
    assert.equal(parseCidr('0.0.0.0/0')?.text, '0.0.0.0/0')
  })

  for (const text of [
    '',
    '10.0.0.0',
    '10.0.0.0/',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    'a/8',
    '/8',
  ]) {
    test(`is not ${JSON.stringify(text)}`, () => assert.equal(parseCidr(text), undefined))
  }

  test('contains an address exactly when the prefixes agree bit by bit', () => {
    const bits = (bytes: Uint8Array) => [...bytes].map((b) => b.toString(2).padStart(8, '0')).join('')
    const pair = fc.oneof(fc.tuple(bytes4, bytes4), fc.tuple(sparse16, sparse16))
    fc.assert(
      fc.property(pair, fc.nat(128), ([network, address], length) => {
        fc.pre(length <= network.length * 8)
        fc.pre(!(network.length === 16 && (isMapped(network) || isMapped(address))))
        const cidr = parseCidr(`${addressText(network)}/${length}`)
        assert.ok(cidr)
        const agree = bits(network).slice(0, length) === bits(address).slice(0, length)
        assert.equal(cidrContains(cidr, addressText(address)), agree)
      }),
    )
  })

  test('never contains an address of the other family', () => {
    const all = parseCidr('0.0.0.0/0')
    assert.ok(all)
    assert.equal(cidrContains(all, '::1'), false)
  })
})

test('special addresses are those that the API server refuses for endpoints', () => {
  for (const text of [
    '0.0.0.0',
    '127.0.0.1',
    '169.254.1.1',
    '224.0.0.5',
    '::',
    '::1',
    'fe80::1',
    'ff02::1',
  ]) {
    assert.equal(isSpecialAddress(text), true, text)
  }
  for (const text of ['10.0.0.1', '0.0.0.1', '224.0.1.1', '::2', 'fd00::1', 'ff05::1', '2001:db8::1']) {
    assert.equal(isSpecialAddress(text), false, text)
  }
})

test('a host and port has brackets around IPv6', () => {
  assert.equal(hostPort('10.0.0.1', 80), '10.0.0.1:80')
  assert.equal(hostPort('fd00::1', 80), '[fd00::1]:80')
})
