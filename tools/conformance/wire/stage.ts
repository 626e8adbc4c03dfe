/** The cluster of namespaces with all set-ups in it at once, and a daemon on each node. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  CLIENT,
  type Cluster,
  type Daemon,
  NODE_NAMES,
  NODES,
  type NodeName,
  POD_NAMES,
  type Stage,
  setStage,
} from '../../cluster/index.ts'
import {
  ALTERNATE,
  ALTERNATE_NETWORKS,
  type Instance,
  OWN_RANGES,
  ownAddress,
  SERVICE_CIDRS,
  targetOf,
} from '../addresses.ts'
import { ROWS } from '../instances.ts'
import type { ClientAddress } from '../judge.ts'
import { manifestText, type NodeChange, nodeObjects, objectsOf, serviceCIDR } from '../objects.ts'
import { THIS_NODE } from '../types.ts'
import { type Variant, variantFlags } from '../variants.ts'
import { RestoreRecorder } from './recorder.ts'
import { SctpNetwork } from './sctp.ts'

/** Room for all set-ups of both families. */
const MAP_SIZES = {
  services: 4096,
  service_stats: 4096,
  lists: 8192,
  cursors: 8192,
  flows4: 32_768,
  flows6: 32_768,
} as const

/** What pods serve beside the usual. */
const MORE_PORTS = { tcp: [8443, 5353, 100, 101], udp: [53, 100] } as const
const SCTP_PORTS = [53] as const
/** Where the nodes serve, as pods on the host network. */
const HOST_PORT = 7080

/** What is put to the test. */
export type WireDataplane = 'bpf' | 'iptables'

export class ConformanceStage implements AsyncDisposable {
  readonly dataplane: WireDataplane
  readonly stage: Stage
  readonly instances: readonly Instance[]
  /** Of this node, for the rows alone. */
  readonly nodeAddresses: ReadonlySet<string>
  readonly sctp: SctpNetwork
  /** Of the daemon on this node. */
  readonly restores: RestoreRecorder
  #daemons: readonly Daemon[] = []

  private constructor(
    stage: Stage,
    sctp: SctpNetwork,
    instances: readonly Instance[],
    dataplane: WireDataplane,
  ) {
    this.dataplane = dataplane
    this.stage = stage
    this.restores = new RestoreRecorder(stage.folder)
    this.sctp = sctp
    this.instances = instances
    this.nodeAddresses = new Set([...Object.values(ALTERNATE), ...ownedAddresses(instances)])
  }

  /** Builds the cluster and puts all objects into it; starts no daemon. */
  static async build(
    prefix: string,
    instances: readonly Instance[],
    dataplane: WireDataplane,
  ): Promise<ConformanceStage> {
    const stage = await setStage({
      prefix,
      examples: [],
      source: 'kubernetes',
      mapSizes: MAP_SIZES,
      // Without it rules translate no answer of a pod to another one on its bridge, as with kube-proxy.
      brNetfilter: dataplane === 'iptables' ? 1 : 0,
    })
    try {
      const sctp = await SctpNetwork.open(stage.cluster, SCTP_PORTS)
      const built = new ConformanceStage(stage, sctp, instances, dataplane)
      built.setNode()
      stage.write('service-cidr', manifestText([serviceCIDR('kubernetes', SERVICE_CIDRS.first)]))
      for (const instance of instances) stage.write(instance.name, manifestText(objectsOf(instance)))
      await runScript(addressScript(prefix, instances))
      if (dataplane === 'iptables') await runScript(rulesScript(prefix))
      await built.#serve()
      return built
    } catch (error) {
      await stage[Symbol.asyncDispose]()
      throw error
    }
  }

  get cluster(): Cluster {
    return this.stage.cluster
  }

  daemon(name: NodeName): Daemon {
    const daemon = this.#daemons.find((each) => each.node.name === name)
    if (daemon === undefined) throw new Error(`no daemon runs on ${name}`)
    return daemon
  }

  /** Runs the daemons with these settings, instead of the ones that run; resolves when they hold all there is. */
  async start(variant: Variant, clientAddress: ClientAddress): Promise<void> {
    await Promise.all(this.#daemons.map((daemon) => daemon.stop()))
    if (this.dataplane === 'iptables') await this.#removeGuard()
    const flags = ['--proxy-mode', this.dataplane, ...variantFlags(variant, clientAddress)]
    this.#daemons = NODE_NAMES.map((name) =>
      this.stage.daemonWith(name, flags, name === THIS_NODE ? this.restores.launcher : []),
    )
    await Promise.all(this.#daemons.map((daemon) => daemon.startUntilReady()))
  }

  /** The kubelet has the very same rule, so a daemon that needs it no longer leaves it there. */
  async #removeGuard(): Promise<void> {
    for (const name of NODE_NAMES) {
      await this.cluster.node(name).exec(['iptables', '-w', '-F', 'KUBE-FIREWALL'], { anyCode: true })
    }
  }

  change(instance: Instance, name: string): void {
    this.stage.write(instance.name, manifestText(objectsOf(instance, name)))
  }

  /** The Node object of this node is another; without an argument as it was. */
  setNode(change: NodeChange = {}): void {
    this.stage.write('nodes', manifestText(nodeObjects(change)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.sctp[Symbol.dispose]()
    await this.stage[Symbol.asyncDispose]()
  }

  /**
   * Pods and nodes serve where endpoints are; this node itself also where probes must not be handled, so that it shows
   * who answers.
   */
  async #serve(): Promise<void> {
    const { cluster } = this
    const unhandled = unhandledAddresses(this.instances)
    await Promise.all([
      ...POD_NAMES.flatMap((name) => [
        ...MORE_PORTS.tcp.map((port) => cluster.pod(name).serve({ protocol: 'tcp', port })),
        ...MORE_PORTS.udp.map((port) => cluster.pod(name).serve({ protocol: 'udp', port })),
      ]),
      ...NODE_NAMES.map((name) => cluster.node(name).serve({ protocol: 'tcp', port: HOST_PORT })),
      ...unhandled.map((input) => cluster.node('n1').serve({ protocol: 'tcp', ...input })),
    ])
  }
}

/** Node ports at every address of the node, other addresses by themselves. */
function unhandledAddresses(
  instances: readonly Instance[],
): readonly { readonly port: number; readonly address?: string }[] {
  const found = new Map<string, { readonly port: number; readonly address?: string }>()
  for (const row of ROWS.filter((each) => each.kind === 'packet' && 'steps' in each)) {
    for (const instance of instances.filter(({ name }) => name.replace(/-\d+$/, '') === row.setup)) {
      for (const step of row.steps) {
        if (!('from' in step) || step.expect.what !== 'unhandled' || step.chosen !== undefined) continue
        const [family = 4] = instance.families
        const { address, port } = targetOf(step, instance, family)
        const input = step.to.endsWith('node-port') ? { port } : { address, port }
        found.set(JSON.stringify(input), input)
      }
    }
  }
  return [...found.values()]
}

function ownedAddresses(instances: readonly Instance[]): readonly string[] {
  return instances.flatMap((instance) =>
    (instance.setup.owned ?? []).flatMap((place) =>
      instance.families.map((family) => ownAddress(instance, place, family)),
    ),
  )
}

/** Addresses and routes that the little cluster has not. */
function addressScript(prefix: string, instances: readonly Instance[]): string {
  const owned = ownedAddresses(instances).map((address) => `${address}/${address.includes(':') ? 128 : 32}`)
  const toThisNode = [...ALTERNATE_NETWORKS, ...OWN_RANGES, ...SERVICE_CIDRS.first, ...SERVICE_CIDRS.extended]
  const add = (address: string, device: string) =>
    `address add ${address} dev ${device}${address.includes(':') ? ' nodad' : ''}`
  return [
    batch(`${prefix}-n1`, [
      add(`${ALTERNATE[4]}/24`, 'eth0'),
      // Not one that the node takes for its own when it asks.
      `${add(`${ALTERNATE[6]}/64`, 'eth0')} preferred_lft 0`,
      ...owned.map((address) => add(address, 'lo')),
    ]),
    sourceRoutes(`${prefix}-router`),
    batch(
      `${prefix}-router`,
      toThisNode.map(
        (range) => `route add ${range} via ${range.includes(':') ? NODES.n1.ipv6 : NODES.n1.ipv4}`,
      ),
    ),
  ].join('\n')
}

/**
 * What rules of iptables need of a node. They send a pod's packet to itself back to the bridge port it came from: a CNI
 * that goes with kube-proxy turns that on. Refusals are ICMP errors, and all that are asked for here at once are more than
 * a kernel is willing to send.
 */
function rulesScript(prefix: string): string {
  const unlimited = 'sysctl -q -w net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0'
  const limits = [...NODE_NAMES, 'router'].map(
    (name) => `nsenter --net=/run/netns/${prefix}-${name} ${unlimited}`,
  )
  const hairpins = NODE_NAMES.map((name) => {
    const bridge = `bridge -n ${prefix}-${name} link`
    const ports = `${bridge} show | sed -n 's/^[0-9]*: \\([^:@]*\\).* master .*/\\1/p'`
    return `for port in $(${ports}); do ${bridge} set dev "$port" hairpin on; done`
  })
  return [...limits, ...hairpins].join('\n')
}

/** A table of the router's, beside its main one. */
const THROUGH_THIS_NODE = 100

/**
 * What pods of the other node send to the clients' network passes this node: else a client whose address is kept, because
 * nobody can tell pods from others, would be answered past the node that it asked.
 */
function sourceRoutes(router: string): string {
  const { n1, n2 } = NODES
  return [
    `ip -n ${router} rule add from ${n2.podCidr} to ${CLIENT.ipv4}/24 lookup ${THROUGH_THIS_NODE}`,
    `ip -n ${router} route add default via ${n1.ipv4} table ${THROUGH_THIS_NODE}`,
    `ip -n ${router} -6 rule add from ${n2.podCidr6} to ${CLIENT.ipv6}/64 lookup ${THROUGH_THIS_NODE}`,
    `ip -n ${router} -6 route add default via ${n1.ipv6} table ${THROUGH_THIS_NODE}`,
  ].join('\n')
}

function batch(namespace: string, lines: readonly string[]): string {
  return [`ip -n ${namespace} -batch - <<'END'`, ...lines, 'END'].join('\n')
}

async function runScript(script: string): Promise<void> {
  const child = spawn('sh', ['-e'], { stdio: ['pipe', 'inherit', 'inherit'] })
  child.stdin.end(script)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error('the addresses of the table could not be added')
}
