import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ConntrackWishes, conntrackSysctls, setConntrackSysctls } from './conntrack-sysctls.ts'
import type { Sysctls } from './sysctls.ts'

const MAX = 'net.netfilter.nf_conntrack_max'
const BUCKETS = 'net.netfilter.nf_conntrack_buckets'
const ESTABLISHED = 'net.netfilter.nf_conntrack_tcp_timeout_established'
const CLOSE_WAIT = 'net.netfilter.nf_conntrack_tcp_timeout_close_wait'
const UDP = 'net.netfilter.nf_conntrack_udp_timeout'

/** kube-proxy's defaults. */
const USUAL: ConntrackWishes = {
  maxPerCore: 32_768,
  min: 131_072,
  tcpBeLiberal: false,
  tcpEstablished: 86_400,
  tcpCloseWait: 3600,
  udp: 0,
  udpStream: 0,
}
/** The kernel's. */
const KERNEL = {
  [MAX]: '65536',
  [BUCKETS]: '65536',
  [ESTABLISHED]: '432000',
  [CLOSE_WAIT]: '60',
  [UDP]: '30',
}

function kernel(
  values: Readonly<Record<string, string>>,
  { wishes = USUAL, readOnly = [] as readonly string[] } = {},
) {
  const held = new Map(Object.entries(values))
  const written: string[] = []
  const warnings: string[] = []
  const sysctls: Sysctls = {
    read: (name) => held.get(name),
    write: (name, value) => {
      if (readOnly.includes(name)) throw new Error('EROFS: read-only file system')
      held.set(name, value)
      written.push(`${name}=${value}`)
    },
  }
  const log = { info: () => undefined, warn: (message: string) => warnings.push(message) }
  return { held, written, warnings, set: () => setConntrackSysctls({ wishes, cpus: 2, sysctls, log }) }
}

test('what is asked for, as kube-proxy computes it', () => {
  const max = (wishes: Partial<ConntrackWishes>, cpus: number) =>
    conntrackSysctls({ ...USUAL, ...wishes }, cpus).find(([name]) => name === 'nf_conntrack_max')?.[1]
  assert.equal(max({}, 2), 131_072)
  assert.equal(max({}, 8), 262_144)
  assert.equal(max({}, 64), 1_048_576)
  assert.equal(max({ min: 2_000_000 }, 64), 2_000_000)
  assert.equal(max({ maxPerCore: 0 }, 8), undefined)
  assert.equal(max({ min: 0 }, 1), 32_768)
  assert.deepEqual(
    conntrackSysctls(
      {
        maxPerCore: 0,
        min: 5,
        tcpBeLiberal: true,
        tcpEstablished: 0,
        tcpCloseWait: 0,
        udp: 7,
        udpStream: 8,
      },
      2,
    ),
    [
      ['nf_conntrack_tcp_be_liberal', 1],
      ['nf_conntrack_udp_timeout', 7],
      ['nf_conntrack_udp_timeout_stream', 8],
    ],
  )
})

test('what is otherwise is set, what is not asked for is left alone, and more buckets are, too', () => {
  const { held, written, set } = kernel(KERNEL)
  set()
  assert.deepEqual(written, [`${MAX}=131072`, `${ESTABLISHED}=86400`, `${CLOSE_WAIT}=3600`])
  assert.equal(held.get(UDP), '30')
})

test('there are buckets for what is to be held', () => {
  const { written, set } = kernel(
    { [MAX]: '65536', [BUCKETS]: '16384' },
    { wishes: { ...USUAL, tcpEstablished: 0, tcpCloseWait: 0 } },
  )
  set()
  assert.deepEqual(written, [`${MAX}=131072`, `${BUCKETS}=32768`])
})

test('what is as it should be is not written', () => {
  const { written, set } = kernel(KERNEL)
  set()
  assert.equal(written.length, 3)
  set()
  assert.equal(written.length, 3)
})

test('what cannot be written is told, all in one, and the rest is done', () => {
  const { written, warnings, set } = kernel(KERNEL, { readOnly: [MAX, CLOSE_WAIT] })
  set()
  assert.deepEqual(written, [`${ESTABLISHED}=86400`])
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /\(sysctl -w \S*_max=131072 \S*_close_wait=3600\)/)
})

test('room for more than is asked for is no lack', () => {
  const { warnings, set } = kernel({ ...KERNEL, [MAX]: '262144' }, { readOnly: [MAX] })
  set()
  assert.deepEqual(warnings, [])
})
