/** `sluice probe`: looks at the kernel and the node, and changes nothing. */

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  BpfError,
  type CgroupHook,
  type ClsactFilter,
  clsactDevices,
  type Direction,
  loadObject,
  type ObjectSpec,
  openNetlink,
  openPinnedLink,
  queryCgroup,
  queryClsact,
  queryTcx,
} from 'libbpf-ts'
import type { ProbeOptions } from '../cli/options.ts'
import {
  type HookedProgram,
  type ProbedDevice,
  type ProbedRule,
  type ProbeReport,
  socketNotes,
  type Verdict,
} from '../cli/probe.ts'
import {
  cgroupFolder,
  cgroupMount,
  type Finding,
  kernelText,
  missing,
  probeKernel,
  probeMounts,
  probePrivileges,
} from '../cli/requirements.ts'
import type { PortRange } from '../config/node-port-options.ts'
import { describeFilter } from '../dataplane/bpf/clsact-hooks.ts'
import { isOurFilter } from '../dataplane/bpf/clsact-places.ts'
import { readDatapath } from '../dataplane/bpf/objects.ts'
import { linksFolder } from '../dataplane/bpf/pinned-links.ts'
import { SOCKET_PROGRAMS } from '../dataplane/bpf/socket-attachments.ts'
import { probeDestroySockets } from '../dataplane/bpf/socket-diag.ts'
import { choose } from '../dataplane/choose.ts'
import { type RunCommand, runCommand } from '../dataplane/netfilter/command.ts'
import { detectFlavour } from '../dataplane/netfilter/flavour.ts'
import { EFFECT_TEXT } from '../dataplane/netfilter/foreign-rules.ts'
import { hasEntries } from '../layout/growth.ts'
import { type ClassifiedDevice, classifyDevices } from '../node/classify.ts'
import { type NodeSnapshot, nodeAddresses as nodeAddressesOf } from '../node/state.ts'
import { watchNode } from '../node/watch.ts'
import { xdpPrograms } from '../node/xdp.ts'
import { hasConntrackLookup } from './conntrack.ts'
import { findForeignRules } from './foreign-rules.ts'
import { OBJECT_FOLDER } from './objects.ts'
import { startSource } from './start-source.ts'

/** Everything that `sluice run` would look at on this node. */
export async function probeNode(options: ProbeOptions): Promise<ProbeReport> {
  const { bpfRoot, cgroupRoot, nodeName, nodePortRange, devicePatterns } = options
  const basics = [...probePrivileges(), ...probeKernel()]
  const findings = [
    ...basics,
    ...(missing(basics).length === 0 ? probePrograms() : []),
    ...probeMounts(bpfRoot, cgroupRoot),
    await probeDestruction(),
    ...(await probeTools(runCommand)),
  ]
  const internalIPs = await internalIPsOf(options)
  const node = await currentNode()
  const devices = classifyDevices(node, internalIPs ?? [], devicePatterns)
  const own = ownPrograms(bpfRoot)
  using netlink = openNetlink({ family: 'route' })
  const xdp = await xdpPrograms(netlink)
  const verdict = await verdictOf(missing(findings), missing(probePrivileges()).length === 0)
  return {
    verdict,
    kernel: kernelText(),
    node: nodeName,
    findings,
    devices: devices.map((device) => probeDevice(device, own, xdp.get(device.ifindex))),
    // Rules of iptables stand where kube-proxy's do: nothing comes earlier to them.
    rules: verdict.dataplane === 'bpf' ? await probeRules(node, nodePortRange) : [],
    notes: [...notesOf(nodeName, internalIPs), ...probeSockets(cgroupRoot, own)],
  }
}

/** As the daemon would choose. A privilege that is missing it would not get round. */
async function verdictOf(bpf: readonly string[], isPrivileged: boolean): Promise<Verdict> {
  if (bpf.length === 0) return { dataplane: 'bpf', why: '', missing: bpf }
  if (!isPrivileged) return { dataplane: null, why: '', missing: bpf }
  const iptables = (await detectFlavour(runCommand)) === undefined ? ['a flavour of iptables that works'] : []
  const choice = choose('auto', { bpf, iptables })
  if (choice.dataplane === undefined) return { dataplane: null, why: '', missing: [...bpf, ...iptables] }
  return { dataplane: choice.dataplane, why: choice.why, missing: bpf }
}

function notesOf(nodeName: string, internalIPs: readonly string[] | undefined): string[] {
  if (internalIPs === undefined) {
    return [
      "Without --source the Node object's InternalIP is not known: devices are judged by their routes alone.",
    ]
  }
  return internalIPs.length > 0 ? [] : [`The source has no Node ${nodeName} with an InternalIP.`]
}

/** The proof: the programs themselves, over maps as small as possible. Of the families, one is enough to begin with. */
function probePrograms(): Finding[] {
  const specs = readDatapath(OBJECT_FOLDER, hasConntrackLookup())
  const tried = specs.map(({ family, spec }) => ({ family, refusal: whyRefused(spec) }))
  const isServed = tried.some(({ family, refusal }) => family !== undefined && refusal === undefined)
  return tried.map(({ family, refusal }) => ({
    name: `Sluice's programs for ${family === undefined ? 'devices' : family === 'ipv4' ? 'IPv4' : 'IPv6'}`,
    needed: family === undefined || refusal === undefined || !isServed,
    use: 'everything',
    here: refusal === undefined ? 'yes' : 'no',
    detail: refusal ?? 'the verifier takes them',
  }))
}

function whyRefused(spec: ObjectSpec): string | undefined {
  for (const map of spec.maps.values()) if (hasEntries(map)) map.maxEntries = 1
  try {
    loadObject(spec).close()
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

async function probeDestruction(): Promise<Finding> {
  using netlink = openNetlink({ family: 'sock_diag' })
  const answer = await probeDestroySockets(netlink)
  const reasons: Readonly<Record<string, string>> = {
    EOPNOTSUPP: 'the kernel was built without CONFIG_INET_DIAG_DESTROY; their owners are not told',
    ENOENT: 'the kernel has no udp_diag (modprobe udp_diag); their owners are not told',
    EPERM: 'the probe needs the capability NET_ADMIN',
  }
  return {
    name: 'SOCK_DESTROY for UDP',
    here: answer === 'yes' ? 'yes' : answer === 'EPERM' ? 'unknown' : 'no',
    needed: false,
    use: 'connected sockets whose backend is gone',
    detail: answer === 'yes' ? '' : (reasons[answer] ?? answer),
  }
}

const TOOLS = [
  { name: 'nft', use: 'external clients of backends on other nodes' },
  { name: 'iptables', use: 'pass a FORWARD chain that drops' },
  { name: 'ip6tables', use: 'pass a FORWARD chain of IPv6 that drops' },
] as const

async function probeTools(run: RunCommand): Promise<Finding[]> {
  return Promise.all(
    TOOLS.map(async ({ name, use }): Promise<Finding> => {
      const { code, stdout } = await run([name, '--version'])
      const here = code === 0 ? 'yes' : 'no'
      return { name, here, needed: false, use, detail: code === 0 ? stdout.trim() : 'not on the path' }
    }),
  )
}

/** So long a cluster may take to say what it has. */
const SOURCE_WAIT_MS = 5000

/** Of the Node object in the source; undefined without a source. */
async function internalIPsOf({ source, nodeName }: ProbeOptions): Promise<readonly string[] | undefined> {
  if (source === undefined) return undefined
  const abort = new AbortController()
  const log = { info: () => undefined, debug: () => undefined }
  try {
    const { store, onChange } = await startSource({ source, nodeName }, log, abort.signal)
    const isKnown = () => store.synced || store.cluster.node !== undefined
    if (!isKnown()) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, SOURCE_WAIT_MS)
        onChange(() => {
          if (!isKnown()) return
          clearTimeout(timer)
          resolve()
        })
      })
    }
    return store.cluster.node?.internalIPs ?? []
  } finally {
    abort.abort()
  }
}

/** Which frontends there are nobody knows here: an address that is not the node's may be a service's. */
async function probeRules(node: NodeSnapshot, nodePorts: PortRange): Promise<ProbedRule[]> {
  const nodeAddresses = new Set(nodeAddressesOf(node).map(({ address }) => address))
  const found = await findForeignRules({ nodeAddresses, nodePorts, frontends: undefined })
  return found.map(({ effect, ...rule }) => ({ ...rule, means: EFFECT_TEXT[effect] }))
}

async function currentNode(): Promise<NodeSnapshot> {
  const abort = new AbortController()
  let current: NodeSnapshot = { devices: new Map(), addresses: [], gateways: new Map() }
  try {
    await watchNode(
      (node) => {
        current = node
      },
      { signal: abort.signal, log: { warn: () => undefined } },
    )
    return current
  } finally {
    abort.abort()
  }
}

/** Whoever else is on the hooks of sockets that we use. */
function probeSockets(cgroupRoot: string | undefined, own: ReadonlySet<number>): string[] {
  const folder = cgroupRoot === undefined ? cgroupMount() : cgroupFolder(cgroupRoot)
  if (folder === undefined) return []
  const hooks = [...new Set(SOCKET_PROGRAMS.map(({ hook }) => hook))].sort()
  return socketNotes(
    folder,
    hooks.map((hook) => [hook, onSockets(folder, hook).filter((id) => !own.has(id))] as const),
  )
}

function onSockets(folder: string, hook: CgroupHook): number[] {
  try {
    return queryCgroup(folder, hook)
  } catch (error) {
    if (error instanceof BpfError) return []
    throw error
  }
}

/** The ids of the programs that our pinned links have on their hooks. */
function ownPrograms(bpfRoot: string): ReadonlySet<number> {
  const folder = linksFolder(bpfRoot)
  if (!existsSync(folder)) return new Set()
  const ids = readdirSync(folder).map((name) => {
    using link = openPinnedLink(join(folder, name))
    return link.info().programId
  })
  return new Set(ids)
}

function probeDevice(
  device: ClassifiedDevice,
  own: ReadonlySet<number>,
  xdp: number | undefined,
): ProbedDevice {
  const { ifindex, name, why } = device
  return {
    ifindex,
    name,
    class: device.class,
    why,
    ingress: [
      ...(xdp === undefined ? [] : [{ id: xdp, ours: false, by: 'xdp' as const, filter: null }]),
      ...hooked(ifindex, 'ingress', own),
    ],
    egress: hooked(ifindex, 'egress', own),
  }
}

/**
 * In the order in which packets meet them: those on tcx first. None where the kernel does not tell: what is missing then
 * is among the findings.
 */
function hooked(ifindex: number, direction: Direction, own: ReadonlySet<number>): HookedProgram[] {
  return [
    ...onTcx(ifindex, direction).map((id) => ({ id, ours: own.has(id), by: 'tcx' as const, filter: null })),
    ...filtersOf(ifindex, direction).map((filter) => ({
      id: filter.programId ?? null,
      ours: isOurFilter(filter),
      by: 'clsact' as const,
      filter: describeFilter(filter),
    })),
  ]
}

/** An ingress qdisc answers for both directions. */
function filtersOf(ifindex: number, direction: Direction): ClsactFilter[] {
  try {
    return direction === 'ingress' || clsactDevices().includes(ifindex) ? queryClsact(ifindex, direction) : []
  } catch (error) {
    if (error instanceof BpfError) return []
    throw error
  }
}

function onTcx(ifindex: number, direction: Direction): number[] {
  try {
    return queryTcx(ifindex, direction).programIds
  } catch (error) {
    if (error instanceof BpfError) return []
    throw error
  }
}
