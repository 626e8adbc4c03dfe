import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServicePort } from '../model/types.ts'
import { changeText } from './change-text.ts'

/** A port of a service: those in brackets drain. */
function port(...endpoints: readonly string[]): ServicePort {
  const addresses = endpoints.map((text) => text.replace(/[()]/g, ''))
  const backends = addresses.map((address) => ({ address, port: 80, onNode: false, weight: 1 }))
  const cluster = endpoints.flatMap((text, i) => (text.startsWith('(') ? [] : [i]))
  return { backends, cluster, local: [] } as unknown as ServicePort
}

const ROWS: readonly (readonly [
  title: string,
  before: readonly ServicePort[] | undefined,
  after: readonly ServicePort[] | undefined,
  text: string,
])[] = [
  ['an endpoint comes', [port('10.0.0.1')], [port('10.0.0.1', '10.0.0.2')], 'a/b +10.0.0.2:80'],
  ['one goes', [port('10.0.0.1', '10.0.0.2')], [port('10.0.0.2')], 'a/b -10.0.0.1:80'],
  ['one drains', [port('10.0.0.1')], [port('(10.0.0.1)')], 'a/b 10.0.0.1:80 drains'],
  ['one serves again', [port('(10.0.0.1)')], [port('10.0.0.1')], 'a/b +10.0.0.1:80'],
  ['one that drained is gone', [port('(10.0.0.1)')], [port()], 'a/b -10.0.0.1:80'],
  [
    'another one in its place',
    [port('10.0.0.1')],
    [port('10.0.0.2', '(10.0.0.1)')],
    'a/b +10.0.0.2:80 10.0.0.1:80 drains',
  ],
  [
    'the same pod behind two ports',
    [port(), port()],
    [port('10.0.0.1'), port('10.0.0.1')],
    'a/b +10.0.0.1:80',
  ],
  [
    'one port of two lists it still',
    [port('10.0.0.1'), port('10.0.0.1')],
    [port('10.0.0.1'), port('(10.0.0.1)')],
    'a/b, but not its endpoints',
  ],
  ['an IPv6 address', [port()], [port('fd00::1')], 'a/b +[fd00::1]:80'],
  [
    'many at once',
    [port()],
    [port('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4', '10.0.0.5', '10.0.0.6')],
    'a/b +10.0.0.1:80 +10.0.0.2:80 +10.0.0.3:80 +10.0.0.4:80 and 2 more',
  ],
  ['something else', [port('10.0.0.1')], [port('10.0.0.1')], 'a/b, but not its endpoints'],
  ['a new service', undefined, [port('10.0.0.1')], 'a/b is new, with 1 endpoint'],
  ['a service that goes', [port('10.0.0.1')], undefined, 'a/b is gone'],
]

for (const [title, before, after, text] of ROWS) {
  test(title, () => assert.equal(changeText('a/b', before, after), text))
}
