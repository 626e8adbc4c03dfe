/** What is bound to the loopback address of a node stays there, though node ports on it are served. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import type { Member, Stage } from '../cluster/index.ts'
import { NODES } from '../cluster/index.ts'
import { assertAllFrom, eventually, startNodes } from './kit.ts'

const run = promisify(execFile)

const NODE_PORT = 30_093
const SECRET = 9999
const PROTOCOLS = ['tcp', 'udp'] as const
const SERVICES = [
  { name: 'lo', clusterIP: '10.97.0.10', nodePort: NODE_PORT, pods: ['p5'] },
  { name: 'lo-udp', clusterIP: '10.97.0.10', nodePort: NODE_PORT, protocol: 'UDP', pods: ['p5'] },
] as const

/** Listens on the loopback address; prints who sent a datagram. */
const LISTEN = `
  const socket = require('dgram').createSocket('udp4')
  socket.on('message', (_, from) => console.log(from.address))
  socket.bind({ address: '127.0.0.1', port: ${SECRET} }, () => console.log('listening'))`

/** Asks 127.0.0.1 from wherever it runs, by both protocols; prints which of them were answered. */
const ASK = `
  const [port, source] = process.argv.slice(1)
  const to = { host: '127.0.0.1', port: Number(port), localAddress: source }
  const datagrams = require('dgram').createSocket('udp4')
  datagrams.on('message', () => console.log('udp')).on('error', () => undefined)
  datagrams.bind({ address: source }, () => datagrams.send('question 1', to.port, to.host))
  require('net').connect(to).on('connect', () => console.log('tcp')).on('error', () => undefined)
  setTimeout(() => process.exit(), 300)`

describe("neighbours and what listens on the node's loopback address", () => {
  let stage: Stage
  let n1: Member
  /** Namespaces next to n1: a host on its segment, a pod on its bridge, a pod on a link. */
  const neighbours = () => {
    const { prefix } = stage.cluster
    return [
      { name: `${prefix}-router`, address: NODES.n1.gateway, device: 'to-n1', way: `via ${NODES.n1.ipv4}` },
      { name: `${prefix}-p2`, address: '10.244.1.12', device: 'eth0', way: 'via 10.244.1.1' },
      { name: `${prefix}-p4`, address: '10.244.1.134', device: 'eth0', way: 'via 169.254.1.1 onlink' },
    ]
  }
  const inside = (namespace: string, ...argv: string[]) =>
    run('nsenter', [`--net=/run/netns/${namespace}`, ...argv])

  /** The sources of what reached the node's own port. */
  const seen: string[] = []

  before(async () => {
    stage = await startNodes({ services: SERVICES })
    n1 = stage.cluster.node('n1')
    const listener = n1.spawn([process.execPath, '-e', LISTEN], { stdio: ['ignore', 'pipe', 'inherit'] })
    listener.stdout?.on('data', (chunk: Buffer) => seen.push(...chunk.toString().trim().split('\n')))
    await eventually('the port is open', () => seen.includes('listening'))
    // Their own kernels are told that 127.0.0.1 lies behind the node, and that they may use it as a source.
    for (const { name, device, way } of neighbours()) {
      const lines = [
        `sysctl -qw net.ipv4.conf.all.route_localnet=1 net.ipv4.ip_nonlocal_bind=1`,
        `ip route del local 127.0.0.1 table local`,
        `ip route del local 127.0.0.0/8 table local`,
        `ip route add 127.0.0.1 ${way} dev ${device}`,
      ]
      await inside(name, 'sh', '-ec', lines.join('\n'))
    }
  })
  after(() => stage[Symbol.asyncDispose]())

  /** Has them all ask the port; resolves with what was answered, when what they sent has arrived. */
  async function attack(port: number): Promise<string[]> {
    const asked = neighbours().flatMap(({ name, address }) =>
      [address, '127.0.0.1'].map(async (source) => {
        const { stdout } = await inside(name, process.execPath, '-e', ASK, String(port), source)
        return stdout
          .trim()
          .split('\n')
          .flatMap((protocol) => (protocol === '' ? [] : [`${protocol} ${source}`]))
      }),
    )
    seen.length = 0
    const answers = (await Promise.all(asked)).flat()
    // The last one is the node's own.
    const own = await n1.ask({
      to: `127.0.0.1:${SECRET}`,
      protocol: 'udp',
      localAddress: '127.0.0.1',
      timeoutMs: 1,
    })
    assert.equal(own.ok, false)
    await eventually("the node's own datagram arrives", () => seen.at(-1) === '127.0.0.1')
    seen.pop()
    return answers
  }

  const localnet = async () =>
    (await n1.exec(['sh', '-c', 'cat /proc/sys/net/ipv4/conf/*/route_localnet'])).stdout

  test('B49 nobody but the node reaches it, nor its node ports, by whatever source address', async () => {
    for (const port of [SECRET, NODE_PORT]) assert.deepEqual([await attack(port), seen], [[], []])
    for (const protocol of PROTOCOLS) {
      assertAllFrom(await n1.request({ to: `127.0.0.1:${NODE_PORT}`, protocol, count: 3 }), 'p5')
    }
  })

  test('B49 the kernel is never asked to route loopback addresses: while the daemon runs, and after', async () => {
    assert.match(await localnet(), /^(0\n)+$/)
    await stage.daemon('n1').stop()
    assert.match(await localnet(), /^(0\n)+$/)
    for (const port of [SECRET, NODE_PORT]) assert.deepEqual([await attack(port), seen], [[], []])
    await stage.daemon('n1').startUntilReady()
    assert.match(await localnet(), /^(0\n)+$/)
  })

  test('B49 where an administrator asks for that, his port is open, and the node ports are not', async () => {
    // And so what was sent in the tests before did arrive at the node.
    await n1.exec(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1'])
    await attack(SECRET)
    for (const { address } of neighbours()) assert.ok(seen.includes(address), `${address}: ${seen.join()}`)
    assert.deepEqual(await attack(NODE_PORT), [])
  })
})
