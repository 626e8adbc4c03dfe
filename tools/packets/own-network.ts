/**
 * A network namespace of their own for the tests of one file, and in it the devices of a node: an uplink, a bridge with
 * two pods, a pod behind a point-to-point device. They carry no traffic; the programs ask them for routes and
 * neighbours, and the kernel for the MAC address that makes a frame one for this node.
 */

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cidrIn, FAMILIES, textIn } from './family.ts'

const INSIDE = 'SLUICE_OWN_NETWORK'

/**
 * Runs the file again in a new network namespace and ends this process with its result; in there it returns. To be
 * called before anything else. The namespace has no name and ends with the process, and that with this one.
 */
export function enterOwnNetwork(file: string): void {
  if (process.env[INSIDE] === file) return
  const { status, signal, error } = spawnSync(
    'setpriv',
    ['--pdeathsig=KILL', 'unshare', '--net', process.execPath, ...process.execArgv, file],
    { stdio: 'inherit', env: { ...process.env, [INSIDE]: file } },
  )
  if (error !== undefined) throw error
  if (signal !== null) console.error(`${file} was ended by ${signal}`)
  process.exit(status ?? 1)
}

/** A device of the node. `mac` is where a neighbour sends what is for the node: of a bridge port, the bridge's. */
export interface NodeDevice {
  readonly name: string
  readonly ifindex: number
  readonly mac: string
  readonly class: 'external' | 'pod'
  readonly bridge?: number
  readonly isBridge?: boolean
}

const BRIDGE_MAC = '02:00:00:00:01:01'
const BRIDGE_INDEX = 20

/** 192.168.0.10/24, with the way to everywhere else through 192.168.0.1 and to the other node's pods 10.244.2.0/24. */
export const UPLINK: NodeDevice = { name: 'eth0', ifindex: 10, mac: '02:00:00:00:00:10', class: 'external' }
/** 10.244.1.1/25, the gateway of the pods on it. */
export const BRIDGE: NodeDevice = {
  name: 'cni0',
  ifindex: BRIDGE_INDEX,
  mac: BRIDGE_MAC,
  class: 'pod',
  isBridge: true,
}
/** The pod 10.244.1.2. */
export const PORT1: NodeDevice = {
  name: 'port1',
  ifindex: 21,
  mac: BRIDGE_MAC,
  class: 'pod',
  bridge: BRIDGE_INDEX,
}
/** The pod 10.244.1.3, whose MAC address is known. */
export const PORT2: NodeDevice = { ...PORT1, name: 'port2', ifindex: 22 }
/** The pod 10.244.1.130, alone on its device. */
export const POINT: NodeDevice = { name: 'pod3', ifindex: 30, mac: '02:00:00:00:01:30', class: 'pod' }

export const POD2_MAC = '02:00:00:00:01:03'

/** Where a frame that UPLINK, POINT or BRIDGE take for theirs must not go: to another station. */
export const OTHER_MAC = '02:00:00:00:ff:ff'

const SCRIPT = `
link add ${UPLINK.name} index ${UPLINK.ifindex} address ${UPLINK.mac} type veth peer name eth0x
link add ${BRIDGE.name} index ${BRIDGE.ifindex} address ${BRIDGE.mac} type bridge
link add ${PORT1.name} index ${PORT1.ifindex} type veth peer name port1x
link add ${PORT2.name} index ${PORT2.ifindex} type veth peer name port2x
link add ${POINT.name} index ${POINT.ifindex} address ${POINT.mac} type veth peer name pod3x
link set lo up
link set eth0x up
link set port1x up
link set port2x up
link set pod3x up
link set ${PORT1.name} master ${BRIDGE.name} up
link set ${PORT2.name} master ${BRIDGE.name} up
link set ${UPLINK.name} up
link set ${BRIDGE.name} up
link set ${POINT.name} up
`

/** Of each family. Nobody is there to answer whether an address is taken. */
const ADDRESSES = FAMILIES.map((family) => {
  const [address, cidr] = [(text: string) => textIn(family, text), (text: string) => cidrIn(family, text)]
  const nodad = family === 6 ? 'nodad' : ''
  return `
addr add ${cidr('192.168.0.10/24')} dev ${UPLINK.name} ${nodad}
addr add ${cidr('10.244.1.1/25')} dev ${BRIDGE.name} ${nodad}
route add ${cidr('0.0.0.0/0')} via ${address('192.168.0.1')}
route add ${cidr('10.244.2.0/24')} via ${address('192.168.0.11')}
route add ${cidr('10.244.1.130/32')} dev ${POINT.name}
neigh add ${address('10.244.1.3')} lladdr ${POD2_MAC} dev ${BRIDGE.name} nud permanent
`
})

/** Makes the devices in the current network namespace, which must be one of our own. Throws when `ip` fails. */
export function createNodeDevices(): void {
  if (process.env[INSIDE] === undefined)
    throw new Error(
      'the devices of a node are made in a network namespace of their own: enterOwnNetwork first',
    )
  writeFileSync('/proc/sys/net/ipv4/ip_forward', '1')
  writeFileSync('/proc/sys/net/ipv6/conf/all/forwarding', '1')
  const input = [SCRIPT, ...ADDRESSES].join('')
  const { status, stderr } = spawnSync('ip', ['-batch', '-'], { input, encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip could not make the devices of a node: ${stderr.trim()}`)
}
