import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { podSockets, SOCKET_ANNOTATION } from './pod-sockets.ts'
import type { Pod } from './types.ts'

const says = (text: string | undefined) => (text === undefined ? {} : { [SOCKET_ANNOTATION]: text })

function pod(changes: Partial<Pod> = {}): Pod {
  return {
    namespace: 'shop',
    name: 'a',
    annotations: {},
    nodeName: 'n1',
    hostNetwork: false,
    ended: false,
    addresses: ['10.1.1.1'],
    ...changes,
  }
}

const namespaces = (text: string | undefined) => new Map([['shop', { name: 'shop', labels: says(text) }]])

describe('what is said of the sockets of a pod', () => {
  const rows: readonly [
    pod: string | undefined,
    namespace: string | undefined,
    choice: boolean | undefined,
  ][] = [
    [undefined, undefined, undefined],
    ['true', undefined, true],
    ['false', undefined, false],
    [undefined, 'true', true],
    [undefined, 'false', false],
    ['true', 'false', true],
    ['false', 'true', false],
    ['yes', 'true', true],
    ['yes', undefined, undefined],
    ['', 'false', false],
  ]
  for (const [ofPod, ofNamespace, choice] of rows) {
    test(`pod ${ofPod}, namespace ${ofNamespace}: ${choice}`, () => {
      const { choices } = podSockets([pod({ annotations: says(ofPod) })], namespaces(ofNamespace))
      assert.equal(choices.get('10.1.1.1'), choice)
    })
  }

  test('it holds for every address, canonical', () => {
    const addresses = ['10.1.1.1', 'FD00:0::1', 'nonsense']
    const { choices } = podSockets([pod({ addresses, annotations: says('true') })], new Map())
    assert.deepEqual(
      [...choices],
      [
        ['10.1.1.1', true],
        ['fd00::1', true],
      ],
    )
  })

  test('a pod in the network namespace of the node, or one that has ended, says nothing', () => {
    for (const changes of [{ hostNetwork: true }, { ended: true }]) {
      assert.equal(podSockets([pod({ ...changes, annotations: says('true') })], new Map()).choices.size, 0)
    }
  })

  test('what is neither true nor false is told, once a namespace', () => {
    const pods = [pod({ name: 'a' }), pod({ name: 'b' }), pod({ name: 'c', annotations: says('on') })]
    const { problems } = podSockets(pods, namespaces('off'))
    assert.deepEqual(
      problems.map(({ object, field, message }) => `${object} ${field}: ${message}`).toSorted(),
      [
        `Namespace shop metadata.labels[${SOCKET_ANNOTATION}]: "off" is not true or false: it says nothing`,
        `Pod shop/c metadata.annotations[${SOCKET_ANNOTATION}]: "on" is not true or false: it says nothing`,
      ],
    )
  })
})
