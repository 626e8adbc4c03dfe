/**
 * Devices of other kinds than Ethernet's, from the external client to n1: each kind is set up by commands, at both ends
 * under one name, and has the same addresses.
 */

import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cluster, Family, Member } from '../cluster/index.ts'
import { CLIENT, NODES } from '../cluster/index.ts'

/** The name of the device at both ends. */
export const LINK = 'lnk0'

/** Of the two ends: n1's, the client's. */
export const LINK_ADDRESSES: Readonly<Record<Family, readonly [node: string, client: string]>> = {
  ipv4: ['172.31.7.1', '172.31.7.2'],
  ipv6: ['fd00:31:7::1', 'fd00:31:7::2'],
}
const SUBNETS: Readonly<Record<Family, string>> = { ipv4: '172.31.7.0/24', ipv6: 'fd00:31:7::/64' }

export interface LinkKind {
  readonly name: string
  /** What it carries. */
  readonly families: readonly Family[]
  /** Makes both devices, or throws; they go with the result. */
  readonly make: (cluster: Cluster) => Promise<() => Promise<void>>
}

const BOTH: readonly Family[] = ['ipv4', 'ipv6']

/** A tunnel between the addresses that n1 and the client have anyway. */
function tunnel(kind: string, families: readonly Family[], options = '', over: Family = 'ipv4'): LinkKind {
  const ends = [NODES.n1[over], CLIENT[over]] as const
  return {
    name: kind,
    families,
    make: async ({ client, node }) => {
      const add = (member: Member, local: string, remote: string) =>
        batch(member, `link add ${LINK} type ${kind} local ${local} remote ${remote} ${options}`)
      await add(node('n1'), ends[0], ends[1])
      await add(client, ends[1], ends[0])
      return () => removeLink(node('n1'), client)
    },
  }
}

/** Devices over Ethernet links of their own between n1 and the client. */
function overCables(name: string, cables: readonly string[], lines: readonly string[]): LinkKind {
  return {
    name,
    families: BOTH,
    make: async ({ client, node }) => {
      const members = [node('n1'), client] as const
      for (const cable of cables) {
        const peer = `peer name ${cable} netns /run/netns/${client.namespace}`
        await batch(members[0], `link add ${cable} type veth ${peer}`)
      }
      const remove = async (): Promise<void> => {
        await removeLink(...members)
        for (const cable of cables) await batch(members[0], `link delete ${cable}`)
      }
      try {
        for (const member of members) {
          await batch(member, ...lines, ...cables.map((cable) => `link set ${cable} up`))
        }
      } catch (error) {
        await remove().catch(() => undefined)
        throw error
      }
      return remove
    },
  }
}

const TUN: LinkKind = {
  name: 'tun',
  families: BOTH,
  make: async ({ client, node }) => {
    const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-wire-`))
    const program = join(folder, 'wire')
    const remove = (): void => rmSync(folder, { recursive: true, force: true })
    try {
      execFileSync('clang', ['-O2', '-Wall', '-Werror', join(import.meta.dirname, 'wire.c'), '-o', program])
      const argv = [program, node('n1').namespace, client.namespace, LINK] as const
      const wire = client.spawn(argv, { stdio: ['pipe', 'pipe', 'inherit'] })
      const exit = once(wire, 'exit')
      const ready = wire.stdout === null ? undefined : once(wire.stdout, 'data')
      await Promise.race([ready, exit.then(() => Promise.reject(new Error('no tun devices')))])
      return async () => {
        wire.stdin?.end()
        await exit
        remove()
      }
    } catch (error) {
      remove()
      throw error
    }
  },
}

/** Needs `wg` of wireguard-tools. */
const WIREGUARD: LinkKind = {
  name: 'wireguard',
  families: BOTH,
  make: async ({ client, node }) => {
    const members = [node('n1'), client] as const
    const endpoints = [NODES.n1.ipv4, CLIENT.ipv4]
    for (const member of members) await batch(member, `link add ${LINK} type wireguard`)
    try {
      const secrets = await Promise.all(members.map((member) => output(member, ['wg', 'genkey'])))
      const keys = await Promise.all(members.map((member, i) => output(member, ['wg', 'pubkey'], secrets[i])))
      for (const [i, member] of members.entries()) {
        const peer = ['peer', keys[1 - i] ?? '', 'allowed-ips', '0.0.0.0/0,::/0']
        const where = ['listen-port', '51820', 'private-key', '/proc/self/fd/0']
        const endpoint = ['endpoint', `${endpoints[1 - i] ?? ''}:51820`]
        // Our end of its input is a socket, which wg cannot open by a path: it gets a pipe.
        const set = ['wg', 'set', LINK, ...where, ...peer, ...endpoint]
        await output(member, ['sh', '-c', 'cat | "$@"', 'sh', ...set], secrets[i])
      }
    } catch (error) {
      await removeLink(...members)
      throw error
    }
    return () => removeLink(...members)
  },
}

/** A bond is served, not its slaves; a VLAN device, not its trunk. */
export const LINK_KINDS: readonly LinkKind[] = [
  TUN,
  WIREGUARD,
  tunnel('ipip', ['ipv4']),
  tunnel('sit', BOTH, 'mode any'),
  tunnel('gre', BOTH),
  tunnel('ip6tnl', BOTH, 'mode any', 'ipv6'),
  tunnel('gretap', BOTH),
  overCables('vlan', ['cable0'], [`link add link cable0 name ${LINK} type vlan id 7`]),
  overCables(
    'bond',
    ['cable0', 'cable1'],
    [
      `link add ${LINK} type bond mode active-backup miimon 100`,
      `link set cable0 master ${LINK}`,
      `link set cable1 master ${LINK}`,
    ],
  ),
]

/**
 * What keeps a kind from being tried: a kernel without such devices, a machine without its tools. Told apart from a fault
 * of ours: only the device itself is tried, in a namespace where nobody minds.
 */
export async function lacks({ name }: LinkKind, { client }: Cluster): Promise<string | undefined> {
  if (name === 'tun') return undefined
  const parent = name === 'vlan' ? ['link', 'eth0'] : []
  const id = name === 'vlan' ? ['id', '99'] : []
  const add = ['ip', 'link', 'add', ...parent, 'name', 'try0', 'type', name, ...id] as const
  const { code, stderr } = await client.exec([...add, ...(TRIED_WITH[name] ?? [])], { anyCode: true })
  if (/Unknown device type|not supported/.test(stderr)) return `this kernel has no ${name} devices`
  if (code !== 0) throw new Error(`cannot try a ${name} device: ${stderr.trim()}`)
  await batch(client, 'link delete try0')
  if (
    name === 'wireguard' &&
    (await client.exec(['sh', '-c', 'command -v wg'], { anyCode: true })).code !== 0
  ) {
    return 'wg of wireguard-tools is not installed'
  }
  return undefined
}

/** Ends that nobody else has: the kernel refuses two tunnels of one kind between the same. */
const TRIED_WITH: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  [
    ...['ipip', 'sit', 'gre', 'gretap'].map((kind) => [kind, CLIENT.ipv4, '192.0.2.99'] as const),
    ['ip6tnl', CLIENT.ipv6, '2001:db8:99::99'] as const,
  ].map(([kind, local, remote]) => [kind, ['local', local, 'remote', remote]]),
)

/** Brings the link up: addresses at both ends, and the ways to it and over it. Routes go with the devices. */
export async function setUpLink(
  cluster: Cluster,
  { families }: LinkKind,
  services: readonly string[],
): Promise<void> {
  for (const [i, member] of [cluster.node('n1'), cluster.client].entries()) {
    const addresses = families.map((family) => {
      const address = LINK_ADDRESSES[family][i] ?? ''
      return `address add ${address}/${family === 'ipv4' ? 24 : '64 nodad'} dev ${LINK}`
    })
    await batch(member, ...addresses, `link set ${LINK} up`)
  }
  for (const family of families) {
    const [via] = LINK_ADDRESSES[family]
    const own = services.filter((range) => range.includes(':') === (family === 'ipv6'))
    await batch(cluster.client, ...own.map((range) => `route replace ${range} via ${via} dev ${LINK}`))
  }
  const router = ['ip', '-n', `${cluster.prefix}-router`, '-batch', '-']
  execFileSync(router[0] ?? '', router.slice(1), {
    input: families.map((family) => `route replace ${SUBNETS[family]} via ${NODES.n1[family]}\n`).join(''),
  })
}

async function batch(member: Member, ...lines: readonly string[]): Promise<void> {
  await member.exec(['ip', '-batch', '-'], { input: lines.map((line) => `${line}\n`).join('') })
}

async function output(member: Member, argv: readonly [string, ...string[]], input = ''): Promise<string> {
  return (await member.exec(argv, { input })).stdout.trim()
}

async function removeLink(...members: readonly Member[]): Promise<void> {
  for (const member of members) await member.exec(['ip', 'link', 'delete', LINK], { anyCode: true })
}
