import assert from 'node:assert/strict'
import { test } from 'node:test'
import { servicePort } from '../dataplane/bpf/test-kit.ts'
import { keyBytes } from './bytes.ts'
import { frontendEntries, frontendValue, serviceEntry, sourceRangeKeys } from './entries.ts'
import { ipv4Layout } from './family.ts'
import { frontendFlag, frontendKind, listKind, masquerade, serviceFlag, whenEmpty } from './generated.ts'

const PORT = servicePort('web', '10.96.0.1', ['10.0.0.1'], {
  frontends: [
    { kind: 'ClusterIP', address: '10.96.0.1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30080 },
  ],
  affinitySeconds: 60,
  sourceRanges: ['10.0.0.0/8'],
})

test('a frontend is found by address and port in network order, then the protocol', () => {
  const keys = [...frontendEntries(PORT, ipv4Layout, () => false).keys()].map((key) => [...keyBytes(key)])
  assert.deepEqual(keys, [
    [10, 96, 0, 1, 0, 80, 6, 0],
    [30080 >> 8, 30080 & 255, 6, 0],
  ])
})

test('a node port is always on the node, another frontend when the node has its address', () => {
  const flags = (isNodeAddress: boolean) =>
    [...frontendEntries(PORT, ipv4Layout, () => isNodeAddress).values()].map((entry) => entry.flags)
  assert.deepEqual(flags(false), [0, frontendFlag.ON_NODE])
  assert.deepEqual(flags(true), [frontendFlag.ON_NODE, frontendFlag.ON_NODE])
})

test('the value of a node port copies its key with the address zero', () => {
  const key = Uint8Array.of(0x75, 0x80, 17, 0)
  const value = frontendValue(key, { service: 7, kind: frontendKind.NODE_PORT, flags: 1 }, ipv4Layout)
  assert.deepEqual([...value], [0, 0, 0, 0, 0x75, 0x80, 17, 0, 7, 0, 0, 0, frontendKind.NODE_PORT, 1, 0, 0])
})

test('the choice of a list stands at twice the kind of frontend plus the class of client', () => {
  const entry = serviceEntry(PORT, ipv4Layout)
  const { list, whenEmpty: empty, affinitySeconds, flags, family, protocol } = entry
  const { CLUSTER, LOCAL } = listKind
  const { REJECT, DROP } = whenEmpty
  assert.deepEqual([...list], [CLUSTER, CLUSTER, CLUSTER, LOCAL, CLUSTER, CLUSTER, CLUSTER, CLUSTER])
  assert.deepEqual([...empty], [REJECT, REJECT, REJECT, DROP, REJECT, REJECT, REJECT, REJECT])
  const { NEVER, IF_NEEDED } = masquerade
  assert.deepEqual([...entry.masquerade], [...Array(3).fill(IF_NEEDED), NEVER, ...Array(4).fill(IF_NEEDED)])
  assert.deepEqual([affinitySeconds, flags, family, protocol], [60, serviceFlag.SOURCE_RANGES, 4, 6])
})

test('a node that is not in the source ranges is told apart', () => {
  const denied = { ...PORT, nodeAllowed: false }
  assert.equal(serviceEntry(denied, ipv4Layout).flags, serviceFlag.SOURCE_RANGES | serviceFlag.NODE_DENIED)
})

test('a service whose addresses sockets keep is marked', () => {
  const kept = { ...PORT, sourceRanges: undefined, kernelSockets: true }
  assert.equal(serviceEntry(kept, ipv4Layout).flags, serviceFlag.KERNEL_SOCKETS)
})

test('a source range is the service, then the prefix, and its length counts both', () => {
  const [key = ''] = sourceRangeKeys(PORT, 258, ipv4Layout)
  const bytes = keyBytes(key)
  assert.equal(new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true), 32 + 8)
  assert.deepEqual([...bytes.subarray(4)], [0, 0, 1, 2, 10, 0, 0, 0])
})
