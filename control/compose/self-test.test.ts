import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { SelfTestOutcome } from '../dataplane/bpf/socket-self-test.ts'
import { ownCgroupFolder, SelfTest, selfTestProblem } from './self-test.ts'

const SERVED: SelfTestOutcome = { type: 'served' }
const PAST: SelfTestOutcome = { type: 'past' }
const NONE: SelfTestOutcome = { type: 'no such sockets' }
const REFUSED: SelfTestOutcome = { type: 'refused', error: 'EPERM' }
const outcomes = (ipv4: SelfTestOutcome, ipv6: SelfTestOutcome) =>
  new Map([
    ['IPv4', ipv4],
    ['IPv6', ipv6],
  ])

describe('what is said of the socket programs', () => {
  test('nothing while they run, or there are no such sockets', () => {
    assert.equal(selfTestProblem(outcomes(SERVED, SERVED), '/c', '/c/a'), undefined)
    assert.equal(selfTestProblem(outcomes(SERVED, NONE), '/c', '/c/a'), undefined)
  })

  const rows: readonly [string, SelfTestOutcome, SelfTestOutcome, string | undefined, RegExp][] = [
    [
      'this process is elsewhere',
      PAST,
      PAST,
      '/cgroup/a',
      /\(IPv4, IPv6\) .* it is in \/cgroup\/a, .*--cgroup-root/,
    ],
    ['it is where they are', PAST, SERVED, '/c/a', /\(IPv4\) .*attached to \/c .*findmnt -t cgroup2/],
    ['nobody knows where it is', PAST, PAST, undefined, /findmnt -t cgroup2/],
    ['somebody refuses', SERVED, REFUSED, '/c/a', /\(IPv6\) cannot connect .*EPERM.*bpftool cgroup tree \/c/],
  ]
  for (const [what, ipv4, ipv6, own, expected] of rows) {
    test(what, () => assert.match(selfTestProblem(outcomes(ipv4, ipv6), '/c', own) ?? '', expected))
  }
})

test('a trouble is told once, and its end', async () => {
  const lines: string[] = []
  let outcome: SelfTestOutcome = SERVED
  const subject = new SelfTest({
    test: async () => outcomes(outcome, SERVED),
    cgroupRoot: '/c',
    ownCgroup: () => '/c/a',
    log: { info: (text) => lines.push(`info ${text}`), warn: (text) => lines.push(`warn ${text}`) },
  })
  for (const next of [SERVED, PAST, PAST, SERVED, SERVED]) {
    outcome = next
    await subject.look()
  }
  assert.deepEqual(
    lines.map((line) => line.split(' ')[0]),
    ['warn', 'info'],
  )
})

test('where this process is, in either kind of hierarchy', () => {
  const mount = (path: string, root = '/') => ({ path, root, type: 'cgroup2' })
  const hybrid = '12:cpu:/x\n0::/system.slice/a\n'
  assert.equal(
    ownCgroupFolder(hybrid, [mount('/sys/fs/cgroup/unified')]),
    '/sys/fs/cgroup/unified/system.slice/a',
  )
  assert.equal(
    ownCgroupFolder('0::/\n', [mount('/host', '/../..'), mount('/sys/fs/cgroup')]),
    '/sys/fs/cgroup/',
  )
  assert.equal(ownCgroupFolder('0::/\n', [mount('/host', '/../..')]), undefined)
  assert.equal(ownCgroupFolder('12:cpu:/x\n', [mount('/sys/fs/cgroup')]), undefined)
})
