import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { NONE, REMEMBERED_MAX, Sharing } from './sharing.ts'

test('equal lists are one list, and no two others are', () => {
  const sharing = new Sharing()
  const text = fc.constantFrom('', 'a', 'b', ' a', '["a","b"]', 'a","b', '"a"')
  const list = fc.array(text, { maxLength: 3 })
  fc.assert(
    fc.property(list, list, (a, b) => {
      const [first, second] = [sharing.texts([...a]), sharing.texts([...b])]
      assert.deepEqual([first, second], [a, b])
      assert.equal(first === second, JSON.stringify(a) === JSON.stringify(b))
    }),
  )
})

test('ports that differ in one field are kept apart', () => {
  const sharing = new Sharing()
  const ports = [
    { name: '', port: 80, protocol: 'TCP' },
    { name: '', port: undefined, protocol: 'TCP' },
    { name: '', port: 80, protocol: 'UDP' },
    { name: 'http', port: 80, protocol: 'TCP' },
  ] as const
  for (const port of ports) assert.deepEqual(sharing.endpointPorts([{ ...port }]), [port])
  assert.equal(sharing.endpointPorts([{ ...ports[0] }]), sharing.endpointPorts([{ ...ports[0] }]))
  assert.equal(sharing.servicePorts([]), NONE)
})

test('endpoints that differ in anything but their address are kept apart', () => {
  const sharing = new Sharing()
  const hints = fc.array(fc.constantFrom('', 'a', 'b'), { maxLength: 2 })
  const state = fc.record(
    {
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      nodeName: fc.constantFrom(undefined, '', 'a', '{}'),
      zoneHints: hints,
      nodeHints: hints,
    },
    { noNullPrototype: true },
  )
  fc.assert(
    fc.property(state, state, (a, b) => {
      const [first, second] = [sharing.endpointState({ ...a }), sharing.endpointState({ ...b })]
      assert.deepEqual([first, second], [a, b])
      assert.equal(first === second, isDeepStrictEqual(a, b))
    }),
  )
})

test('what is remembered is bounded', () => {
  const sharing = new Sharing()
  const first = sharing.texts(['node-0'])
  for (let i = 1; i <= REMEMBERED_MAX; i++) sharing.texts([`node-${i}`])
  const again = sharing.texts(['node-0'])
  assert.deepEqual(again, first)
  assert.notEqual(again, first)
})
