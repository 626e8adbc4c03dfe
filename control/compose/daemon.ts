/** `sluice run`: builds the parts, starts them in their order, and stops them. */

import { kernelRelease, typedMap, u32, u64 } from 'libbpf-ts'
import { type RunOptions, sourceText } from '../cli/options.ts'
import { type Clock, systemClock } from '../clock.ts'
import { Attachments } from '../dataplane/bpf/attachments.ts'
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { createNetfilter } from '../dataplane/bpf/netfilter.ts'
import { Sweeper } from '../dataplane/bpf/sweeper.ts'
import type { Restored } from '../dataplane/dataplane.ts'
import { keepHeapSmall } from '../heap.ts'
import { layoutOf } from '../layout/family.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import { createLog, type Logger } from '../log.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../model/desired.ts'
import { isEligible } from '../model/eligible.ts'
import { localCidrs } from '../model/settings.ts'
import type { Family } from '../model/types.ts'
import { watchNode } from '../node/watch.ts'
import type { ProxyState } from '../server/health.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { SyncObserver } from '../sync/parts.ts'
import { type DropCounts, DropReport } from './drop-report.ts'
import { checkKernel, checkPrivileges, kernelHas, prepareMounts } from './host.ts'
import { LocalSctp } from './local-sctp.ts'
import { lockNode } from './lock.ts'
import { keepMetrics } from './metrics.ts'
import { NodeFollower } from './node-follower.ts'
import { repeat } from './repeat.ts'
import { startServers } from './servers.ts'
import { packetSettings } from './settings.ts'
import { keepSockets } from './sockets.ts'
import { startDataplane } from './start-dataplane.ts'
import { type StartedSource, startSource } from './start-source.ts'
import { amountText, createSyncLog } from './sync-log.ts'

const SWEEP_INTERVAL_MS = 1000
const CHECK_INTERVAL_MS = 5000
const NETFILTER_INTERVAL_MS = 30_000

/**
 * Runs until SIGTERM or SIGINT. Then everything stays in the kernel, and traffic flows on.
 *
 * @param version What the log says is starting.
 * @throws Refusal for what must change before it can run; other errors where the kernel refuses.
 */
export async function runDaemon(options: RunOptions, version: string): Promise<void> {
  keepHeapSmall()
  const { loggingFormat: format, verbosity } = options
  const log = createLog({ format, verbosity, write: (line) => process.stderr.write(line) })
  const abort = new AbortController()
  stopOnSignals(abort, log)
  checkPrivileges()
  checkKernel()
  await using _lock = await lockNode()
  logStart(options, version, log)
  try {
    const source = await startSource({ ...options, withPods: true }, log, abort.signal)
    const cgroupRoot = await prepareMounts(options, log)
    const { dataplane, adopted } = await startDataplane(options, packetSettings(options), log)
    const started = { source, cgroupRoot, dataplane, adopted }
    try {
      await serve({ options, ...started, log, clock: systemClock, signal: abort.signal })
    } finally {
      await dataplane.stop('leave')
    }
  } finally {
    // What failed must not be kept alive by what began to run before.
    abort.abort()
  }
  log.info('stopped: what is in the kernel stays there, and traffic flows on')
}

/** The first signal stops in order; a second one finds nobody listening and ends the process at once. */
function stopOnSignals(abort: AbortController, log: Logger): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      log.info('stopping', { signal })
      abort.abort()
    })
  }
}

function logStart(options: RunOptions, version: string, log: Logger): void {
  const { source, nodeName, bpfRoot, cgroupRoot, socketLoadBalancing, mapSizes, verbosity } = options
  log.info(`starting ${version}`, {
    kernel: kernelRelease().release,
    source: sourceText(source),
    nodeName,
    bpfRoot,
    ...(cgroupRoot === undefined ? {} : { cgroupRoot }),
    ...(socketLoadBalancing === 'host' ? {} : { socketLoadBalancing }),
    ...(Object.keys(mapSizes).length === 0 ? {} : { mapSizes }),
    verbosity,
  })
}

interface Daemon {
  readonly options: RunOptions
  readonly source: StartedSource
  readonly cgroupRoot: string
  readonly dataplane: BpfDataplane
  readonly adopted: Restored['adopted']
  readonly log: Logger
  readonly clock: Clock
  readonly signal: AbortSignal
}

/**
 * What was adopted serves already, and an empty datapath lets everything pass: no order is wrong here. Everything that
 * takes its time is begun at once.
 */
async function serve(daemon: Daemon): Promise<void> {
  const { options, cgroupRoot, dataplane, log, clock, signal } = daemon
  const { marks, nodePorts } = packetSettings(options)
  const { families } = dataplane
  const { bpfRoot } = options
  const attachments = new Attachments({ object: dataplane, families, bpfRoot, cgroupRoot, log })
  const netfilter = createNetfilter({ marks, nodePorts, families: families.filter(kernelHas), log })
  const localSctp = new LocalSctp(netfilter)
  const startedMs = clock.nowMs()
  const metrics = keepMetrics({
    families,
    dropCounts: dropCountsOf(dataplane),
    freshness: daemon.source.freshness,
    changes: () => daemon.source.store.changes,
    takeTriggerTimes: () => daemon.source.store.takeTriggerTimes(),
    lastQueuedMs: () => wallMs(loop.state().lastQueuedMs, clock),
    devices: () => attachments.devices,
    healthChecks: () => servers.healthChecks.size,
  })
  const { loop, follower, firstSync } = buildPipeline(daemon, attachments, {
    observers: [
      metrics.observer,
      { synced: (outcome) => localSctp.synced(outcome) },
      { synced: ({ desired }) => servers.healthChecks.setChecks(desired.healthChecks) },
    ],
    addresses: (addresses) => {
      servers.setAddresses(addresses)
      localSctp.setAddresses(addresses)
    },
  })
  const servers = await startServers({
    ...options,
    ...options.model,
    state: () => proxyState(daemon, loop, startedMs),
    metrics,
    clock,
    log,
  })

  const netfilterReady = netfilter.ensure()
  attachSockets(attachments, log)
  const { written } = await followNode(daemon, follower)
  const looping = loop.run(signal)
  void Promise.all([firstSync, netfilterReady, written]).then(([amount]) => {
    if (!signal.aborted) log.info(`ready: ${amount} in the kernel`, { seconds: process.uptime().toFixed(2) })
  })
  const sweepers = families.map((family) => createSweeper(dataplane, family, clock))
  const drops = createDropReport(dataplane, log, clock)
  const sockets = keepSockets({ ...options, ...daemon, nodePorts, attachments })
  void firstSync.then(() => sockets.synced())
  const again = (name: string, intervalMs: number, act: () => Promise<unknown>) =>
    repeat({ name, intervalMs, act }, { clock, log, signal })
  const repeating = [
    ...sweepers.map((sweeper) =>
      again('the sweep of expired flows', SWEEP_INTERVAL_MS, () => sweeper.sweep()),
    ),
    again('the look at the drop counters', SWEEP_INTERVAL_MS, async () => drops.look()),
    again('the repair of netfilter', NETFILTER_INTERVAL_MS, () => netfilter.ensure()),
    again('the check of the attachments', CHECK_INTERVAL_MS, () => attachments.check()),
    again('the look at sockets', CHECK_INTERVAL_MS, () => sockets.repeat()),
    again('the check of the node', CHECK_INTERVAL_MS, () => follower.refresh()),
  ]
  await looping
  servers.close()
  metrics.close()
  await Promise.all([...repeating, netfilterReady, follower.idle(), sockets.idle()])
}

function proxyState(
  { options, source, dataplane, adopted }: Daemon,
  loop: SyncLoop<Model>,
  startedMs: number,
): ProxyState {
  const { store } = source
  const { unwrittenSinceMs, lastSyncMs } = loop.state()
  return {
    unwrittenSinceMs,
    lastSyncMs,
    startedMs,
    adopted,
    // Before the source has told everything, its absence means nothing.
    nodeEligible: !store.synced || isEligible(store.cluster.node, options.source.kind === 'kubernetes'),
    families: dataplane.families.map((family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')),
    stalledWatches: source.freshness().flatMap(({ kind, isStalled }) => (isStalled ? [kind] : [])),
  }
}

/** Who is told what the pipeline has done. */
interface PipelineListener {
  /** Beside the log. */
  readonly observers: readonly Partial<SyncObserver>[]
  /** The node has these addresses. */
  addresses(addresses: readonly NodeAddress[]): void
}

interface Pipeline {
  readonly loop: SyncLoop<Model>
  readonly follower: NodeFollower
  /** Resolves with what the kernel holds after the first sync. */
  readonly firstSync: Promise<string>
}

/** Objects → store → model → dataplane, with the node's addresses beside them. */
function buildPipeline(daemon: Daemon, attachments: Attachments, listener: PipelineListener): Pipeline {
  const { options, source, dataplane, log, clock } = daemon
  const { store, onChange } = source
  const firstSync = Promise.withResolvers<string>()
  let addresses: readonly string[] = []
  const facts = () => nodeFacts(options.nodeName, store.cluster.node, addresses, options.model)
  const { detectLocal, nodePortAddresses } = options.model
  // What it says is not told yet, rather than nothing: a restart must not close the node ports for a moment, or open all.
  const isNodeUnknown = () => store.cluster.node === undefined && !store.synced
  const syncLog = createSyncLog(log, (desired) => firstSync.resolve(amountText(desired)))
  const tell = (how: (observer: Partial<SyncObserver>) => void) =>
    [syncLog, ...listener.observers].forEach(how)
  const loop = new SyncLoop<Model>({
    inputs: store,
    model: { empty: emptyModel, update: updateDesired },
    node: facts,
    dataplane,
    observer: {
      synced: (outcome) => tell((observer) => observer.synced?.(outcome)),
      failed: (...told) => tell((observer) => observer.failed?.(...told)),
      problems: (...told) => tell((observer) => observer.problems?.(...told)),
    },
    clock,
  })
  const follower = new NodeFollower({
    internalIPs: () => store.cluster.node?.internalIPs ?? [],
    detectLocal,
    localCidrs: () =>
      detectLocal.mode === 'NodeCIDR' && isNodeUnknown() ? undefined : Object.values(localCidrs(facts())),
    setLocalCidrs: (cidrs) => dataplane.setLocalCidrs(cidrs),
    setDevices: (devices) => attachments.setDevices(devices),
    nodePorts: () => (nodePortAddresses === 'primary' && isNodeUnknown() ? undefined : facts()),
    setNodeAddresses: (wanted) => {
      listener.addresses(wanted)
      return dataplane.setNodeAddresses(wanted)
    },
    addressesChanged: (changed) => {
      addresses = changed
      loop.request()
    },
    log,
  })
  onChange(() => {
    loop.request()
    void follower.nodeObjectChanged()
  })
  return { loop, follower, firstSync: firstSync.promise }
}

/**
 * Follows the node. Resolves when its devices and addresses are known: before the services, whose frontends may be among
 * the addresses. `written` resolves when they are in the kernel, too. Rejects when the node cannot be looked at.
 */
async function followNode(
  { log, signal }: Daemon,
  follower: NodeFollower,
): Promise<{ written: Promise<void> }> {
  let written = Promise.resolve()
  let isFirst = true
  try {
    await watchNode(
      (node) => {
        const done = follower.setSnapshot(node)
        if (isFirst) written = done
        isFirst = false
      },
      { signal, log },
    )
  } catch (error) {
    if (!signal.aborted) throw error
  }
  return { written }
}

/** Processes of the node are one part of the traffic: without them the rest still works, and `check` tries again. */
function attachSockets(attachments: Attachments, log: Logger): void {
  try {
    attachments.attachSockets()
  } catch (error) {
    log.warn('cannot attach the socket programs: processes of this node are not served', { err: error })
  }
}

function createSweeper(dataplane: BpfDataplane, family: Family, { nowMs }: Clock): Sweeper {
  const suffix = layoutOf(family).number
  return new Sweeper({
    program: dataplane.program(`sweep${suffix}`),
    state: dataplane.map(`state${suffix}`).memory(),
    capacity: dataplane.map(`flows${suffix}`).maxEntries,
    clock: nowMs,
  })
}

function dropCountsOf(dataplane: BpfDataplane): DropCounts {
  const stats = typedMap(dataplane.map('drop_stats'), u32, u64)
  return (reason) => stats.getPerCpu(reason).reduce((sum, count) => sum + count, 0n)
}

/** A moment of the clock in milliseconds since 1970. */
function wallMs(atMs: number | undefined, { nowMs }: Clock): number | undefined {
  return atMs === undefined ? undefined : Date.now() - (nowMs() - atMs)
}

function createDropReport(dataplane: BpfDataplane, log: Logger, { nowMs }: Clock): DropReport {
  return new DropReport({
    counts: dropCountsOf(dataplane),
    flowTables: dataplane.families
      .map((family) => `flows${layoutOf(family).number}`)
      .map((name) => ({ name, entries: dataplane.map(name).maxEntries })),
    log,
    nowMs,
  })
}
