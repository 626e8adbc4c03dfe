import assert from 'node:assert/strict'
import { test } from 'node:test'
import { viewOf } from './bytes.ts'
import { ipv4Layout } from './family.ts'
import { filterOffsets, layout, serviceCidrs } from './generated.ts'
import { serviceCidrMemory, writeServiceCidrs } from './service-cidrs.ts'

const ipv6Layout = { family: 'ipv6', number: 6, addressSize: 16 } as const

const read = (memory: Uint8Array) => {
  const { count, ranges } = serviceCidrs.decode(viewOf(memory), 0)
  return ranges.slice(0, count).map(({ address, mask }) => ({
    address: address.map((word) => word.toString(16)).join(' '),
    mask: mask.map((word) => word.toString(16)).join(' '),
  }))
}

test('each family has its ranges in its own place, addresses and masks in network order', () => {
  const filter = new Uint8Array(filterOffsets.size)
  const cidrs = ['10.96.0.0/12', 'fd00::/108', '192.168.7.128/25']
  const ipv4 = serviceCidrMemory(filter, ipv4Layout)
  const ipv6 = serviceCidrMemory(filter, ipv6Layout)
  assert.deepEqual(
    [writeServiceCidrs(ipv4, cidrs, ipv4Layout), writeServiceCidrs(ipv6, cidrs, ipv6Layout)],
    [2, 1],
  )
  assert.deepEqual(read(ipv4), [
    { address: 'a600000 0 0 0', mask: 'fff00000 0 0 0' },
    { address: 'c0a80780 0 0 0', mask: 'ffffff80 0 0 0' },
  ])
  assert.deepEqual(read(ipv6), [{ address: 'fd000000 0 0 0', mask: 'ffffffff ffffffff ffffffff fff00000' }])
  assert.ok(filter.subarray(0, filterOffsets.serviceCidrs4).every((byte) => byte === 0))
})

test('what is there already is not written again, and what is not wanted is taken away', () => {
  const memory = new Uint8Array(serviceCidrs.size)
  assert.equal(writeServiceCidrs(memory, ['10.96.0.0/12', '10.0.0.0/16'], ipv4Layout), 2)
  assert.equal(writeServiceCidrs(memory, ['10.96.0.0/12', '10.0.0.0/16'], ipv4Layout), 0)
  assert.equal(writeServiceCidrs(memory, ['10.0.0.0/16'], ipv4Layout), 1)
  assert.deepEqual(read(memory), [{ address: 'a000000 0 0 0', mask: 'ffff0000 0 0 0' }])
  writeServiceCidrs(memory, [], ipv4Layout)
  assert.ok(memory.every((byte) => byte === 0))
})

test('more than there is room for are refused whole', () => {
  const memory = new Uint8Array(serviceCidrs.size)
  const cidrs = Array.from({ length: layout.SERVICE_CIDRS + 1 }, (_, i) => `10.${i}.0.0/16`)
  assert.throws(
    () => writeServiceCidrs(memory, cidrs, ipv4Layout),
    /^RangeError: 9 ServiceCIDRs of ipv4, at most 8$/,
  )
  assert.ok(memory.every((byte) => byte === 0))
})
