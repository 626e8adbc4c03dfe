import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { afterEach, describe, test } from 'node:test'
import { NetlinkError, type NetlinkMessage, type NetlinkRequest, openNetlink } from 'libbpf-ts'
import { enterOwnNetwork } from '../../../tools/packets/own-network.ts'
import { protocolNumber } from '../../layout/family.ts'
import { addressBytes } from '../../model/address.ts'
import { creation, inquiry, type KnownConnection, parseKnown, removal } from './connections.ts'
import { type ConntrackTuple, connectionStatus, type Endpoint, reversed } from './conntrack-format.ts'

enterOwnNetwork(import.meta.filename)

const ADDRESSES = {
  ipv4: { client: '203.0.113.10', frontend: '10.96.0.10', backend: '10.244.2.7', node: '192.168.1.11' },
  ipv6: { client: '2001:db8::10', frontend: 'fd00:96::10', backend: 'fd00:244::7', node: '2001:db8:1::11' },
} as const
const { TCP, UDP } = protocolNumber

function endpoint(text: string, port: number): Endpoint {
  return { address: addressBytes(text), port }
}

function ask(request: NetlinkRequest): NetlinkMessage[] | NetlinkError {
  using netlink = openNetlink({ family: 'netfilter' })
  const [result] = netlink.exchange([request])
  assert.ok(result)
  return result
}

/** Undefined: it was done. */
function errorOf(request: NetlinkRequest): string | undefined {
  const result = ask(request)
  return result instanceof NetlinkError ? result.errnoName : undefined
}

function known(tuple: ConntrackTuple, protocol: number): KnownConnection {
  const result = ask(inquiry(tuple, protocol))
  assert.ok(Array.isArray(result) && result[0], String(result))
  const connection = parseKnown(result[0].payload, protocol)
  assert.ok(connection)
  return connection
}

for (const family of ['ipv4', 'ipv6'] as const) {
  /** What conntrack(8) shows, without what ticks and what is the kernel's own business. */
  const listed = (): string[] =>
    execFileSync('conntrack', ['-L', '-f', family], { encoding: 'utf8', stdio: 'pipe' })
      .trim()
      .split('\n')
      .map((line) => line.replace(/^(?:ipv6 +10 )?(\w+) +\d+ \d+/, '$1').replace(/ use=\d+$/, ''))
      .map((line) => line.replaceAll(/ +/g, ' '))

  describe(`connections that netfilter is told of (${family})`, () => {
    const { client, frontend, backend, node } = ADDRESSES[family]
    const orig = { source: endpoint(client, 4000), destination: endpoint(frontend, 80) }
    const reply = { source: endpoint(backend, 8080), destination: orig.source }
    const masqueraded = { ...reply, destination: endpoint(node, 5123) }
    afterEach(() => {
      for (const protocol of [TCP, UDP]) ask(removal(orig, protocol))
    })

    test('TCP to a backend: established, its destination translated; one of its tuples is enough to be in the way', () => {
      const request = creation({ protocol: TCP, orig, reply, replied: true })
      assert.equal(errorOf(request), undefined)
      assert.deepEqual(listed(), [
        `tcp ESTABLISHED src=${client} dst=${frontend} sport=4000 dport=80 ` +
          `src=${backend} dst=${client} sport=8080 dport=4000 [ASSURED] mark=0`,
      ])
      assert.equal(errorOf(request), 'EEXIST')
      const other = { ...orig, destination: endpoint(frontend, 81) }
      assert.equal(errorOf(creation({ protocol: TCP, orig: other, reply, replied: true })), 'EEXIST')
      assert.equal(errorOf(removal(reversed(reply), TCP)), 'ENOENT')
      assert.equal(errorOf(removal(reply, TCP)), undefined)
      assert.equal(errorOf(removal(orig, TCP)), 'ENOENT')
      assert.equal(errorOf(inquiry(orig, TCP)), 'ENOENT')
    })

    test('TCP and UDP from the address and the port of the node that netfilter has given the client', () => {
      for (const protocol of [TCP, UDP]) {
        assert.equal(errorOf(creation({ protocol, orig, reply: masqueraded, replied: true })), undefined)
        const { status, ...connection } = known(orig, protocol)
        assert.deepEqual(connection.reply, masqueraded)
        const { CONFIRMED, SEEN_REPLY, ASSURED, SRC_NAT, DST_NAT } = connectionStatus
        const expected = CONFIRMED | SEEN_REPLY | ASSURED | SRC_NAT | DST_NAT
        assert.equal(status & expected, expected)
      }
    })

    test('a datagram that nobody has answered', () => {
      assert.equal(errorOf(creation({ protocol: UDP, orig, reply, replied: false })), undefined)
      assert.deepEqual(listed(), [
        `udp src=${client} dst=${frontend} sport=4000 dport=80 [UNREPLIED] ` +
          `src=${backend} dst=${client} sport=8080 dport=4000 mark=0`,
      ])
    })

    test('with what was known of the connection under another tuple: its state and its mark', () => {
      const plain = reversed(reply)
      execFileSync('conntrack', [
        ...['-I', '-p', 'tcp', '-s', client, '-d', backend, '--sport', '4000', '--dport', '8080'],
        ...['--state', 'FIN_WAIT', '-t', '100', '-m', '6', '-u', 'SEEN_REPLY,ASSURED'],
      ])
      const before = known(plain, TCP)
      assert.equal(errorOf(removal(plain, TCP)), undefined)
      assert.equal(errorOf(creation({ protocol: TCP, orig, reply, replied: true, known: before })), undefined)
      assert.deepEqual(listed(), [
        `tcp FIN_WAIT src=${client} dst=${frontend} sport=4000 dport=80 ` +
          `src=${backend} dst=${client} sport=8080 dport=4000 [ASSURED] mark=6`,
      ])
      assert.ok(known(orig, TCP).timeout <= 100)
    })
  })
}
