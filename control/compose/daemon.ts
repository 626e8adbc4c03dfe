/** `sluice run`: builds the parts, starts them in their order, and stops them. */

import { setTimeout as delay } from 'node:timers/promises'
import { kernelRelease } from 'libbpf-ts'
import { systemClock } from '../clock.ts'
import { CONFIGZ_GROUP, kubeProxyDocument } from '../config/configz.ts'
import { type RunOptions, sourceText } from '../config/options.ts'
import type { Choice } from '../dataplane/choose.ts'
import { keepHeapSmall, settleHeap } from '../heap.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import { createLog, type Logger } from '../log.ts'
import { emptyModel, type Model, nodeFacts, updateDesired } from '../model/desired.ts'
import { isEligible } from '../model/eligible.ts'
import { localCidrs } from '../model/settings.ts'
import { watchNode } from '../node/watch.ts'
import type { ProxyState } from '../server/health.ts'
import { SyncLoop } from '../sync/loop.ts'
import type { SyncObserver } from '../sync/parts.ts'
import { ChangedConfigurationError, isChanged } from './configuration.ts'
import { tellConntrack } from './conntrack.ts'
import type { PartOptions } from './dataplane-part.ts'
import { checkPrivileges } from './host.ts'
import { lockNode } from './lock.ts'
import { keepMetrics, lastTimes } from './metrics.ts'
import {
  choiceEvent,
  createNodeEvents,
  healthCheckEvent,
  serverEvent,
  startingEvent,
  type TellNode,
} from './node-events.ts'
import { NodeFollower } from './node-follower.ts'
import { setOomScore } from './oom-score.ts'
import { pacingWith } from './pacing.ts'
import { type Repetition, repeat } from './repeat.ts'
import { checkPorts, type ServersOptions, startServers } from './servers.ts'
import { type StartedPart, startPart } from './start-part.ts'
import { startSource } from './start-source.ts'
import { Succession } from './succession.ts'
import { amountText, createSyncLog } from './sync-log.ts'
import { tellWaiting } from './waiting-services.ts'

const CHECK_INTERVAL_MS = 5000
const SUCCESSION_INTERVAL_MS = 30_000
/** A daemon that ends waits so long for the API server to take the event that says why. */
const LAST_WORDS_MS = 2000

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
  checkPrivileges(options.proxyMode)
  setOomScore(options.oomScoreAdj, log)
  await using _lock = await lockNode()
  logStart(options, version, log)
  const looking = lookAtConfiguration(options, abort, log)
  try {
    // Where all sockets are served, a pod that refuses must not be served first.
    const pods = options.socketLoadBalancing === 'all' ? 'awaited' : 'late'
    const source = await startSource({ ...options, pods }, log, abort.signal)
    const parts = { options, source, log, clock: systemClock, signal: abort.signal }
    const { tell: tellNode, idle: allTold } = await createNodeEvents(options, parts)
    tellNode(startingEvent(version))
    const serverFailed: ServersOptions['serverFailed'] = (...told) => tellNode(serverEvent(...told))
    await checkPorts({ ...options, clock: systemClock, log, serverFailed }).catch(async (error) => {
      await Promise.race([allTold(), delay(LAST_WORDS_MS, undefined, { ref: false })])
      throw error
    })
    await tellConntrack(options, log)
    const started = await startPart(parts)
    tellChoice(started.choice, log)
    tellNode(choiceEvent(started.choice))
    try {
      await serve({ ...parts, ...started, tellNode })
    } finally {
      await started.part.dataplane.stop('leave')
    }
  } finally {
    // What failed must not be kept alive by what began to run before.
    abort.abort()
    await looking
  }
  if (abort.signal.reason instanceof ChangedConfigurationError) throw abort.signal.reason
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

/** As kube-proxy does: what another configuration asks for begins with another life, and whoever supervises starts that. */
async function lookAtConfiguration(
  { configFiles }: Pick<RunOptions, 'configFiles'>,
  abort: AbortController,
  log: Logger,
): Promise<void> {
  if (configFiles.length === 0) return
  const act = async () => {
    for (const file of configFiles) {
      if (await isChanged(file)) abort.abort(new ChangedConfigurationError(file.path))
    }
  }
  const look = { name: 'the look at the configuration', intervalMs: CHECK_INTERVAL_MS, act }
  await repeat(look, { clock: systemClock, log, signal: abort.signal })
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
  for (const warning of options.warnings) log.warn(warning)
}

/** What was not to be expected is a warning: eBPF was wanted, and cannot be had. */
function tellChoice({ dataplane, reason, why }: Choice, log: Logger): void {
  const text = `the dataplane is ${dataplane}: ${why}`
  if (reason === 'fallback') log.warn(text)
  else log.info(text)
}

interface Daemon extends PartOptions, StartedPart {
  readonly tellNode: TellNode
}

/**
 * What was adopted serves already, and an empty datapath lets everything pass: no order is wrong here. Everything that
 * takes its time is begun at once.
 */
async function serve(daemon: Daemon): Promise<void> {
  const { options, source, part, choice, log, clock, signal } = daemon
  const startedMs = clock.nowMs()
  const metrics = keepMetrics({
    families: part.families,
    choice,
    dataplane: (into) => part.look(into),
    freshness: source.freshness,
    changes: () => source.store.changes,
    takeTriggerTimes: () => source.store.takeTriggerTimes(),
    lastTimes: () => lastTimes(loop.state(), Date.now() - clock.nowMs()),
    healthChecks: () => servers.healthChecks.size,
    requests: source.requests,
  })
  const { loop, follower, firstSync } = buildPipeline(daemon, {
    observers: [
      metrics.observer,
      { synced: (outcome) => part.synced(outcome) },
      tellWaiting(daemon.tellNode),
      { synced: ({ desired }) => servers.healthChecks.setChecks(desired.healthChecks) },
    ],
    addresses: (addresses) => servers.setAddresses(addresses),
  })
  const servers = await startServers({
    ...options,
    ...part.model,
    proxyMode: choice,
    healthCheckFailed: (check, why) => daemon.tellNode(healthCheckEvent(check, why)),
    serverFailed: (...told) => daemon.tellNode(serverEvent(...told)),
    configuration: () => ({ [CONFIGZ_GROUP]: kubeProxyDocument(options, choice.dataplane) }),
    state: () => proxyState(daemon, loop, startedMs),
    metrics,
    clock,
    log,
  })

  const begun = part.begin(() => loop.requestFull())
  const { written } = await followNode(daemon, follower)
  const looping = loop.run(signal)
  const succession = new Succession(() => part.takeOver(), log)
  void Promise.all([firstSync, begun, written]).then(async ([amount]) => {
    settleHeap()
    if (signal.aborted) return
    log.info(`ready: ${amount} in the kernel`, { seconds: process.uptime().toFixed(2) })
    await succession.begin()
  })
  const repetitions: readonly Repetition[] = [
    ...part.repetitions,
    { name: 'the check of the node', intervalMs: CHECK_INTERVAL_MS, act: () => follower.refresh() },
    { name: 'the take-over', intervalMs: SUCCESSION_INTERVAL_MS, act: () => succession.retry() },
  ]
  const repeating = repetitions.map((each) => repeat(each, { clock, log, signal }))
  await looping
  servers.close()
  metrics.close()
  await Promise.all([...repeating, begun, succession.idle(), follower.idle(), part.idle()])
}

function proxyState({ options, source, part }: Daemon, loop: SyncLoop<Model>, startedMs: number): ProxyState {
  const { store } = source
  const { unwrittenSinceMs, lastSyncMs, lastReport } = loop.state()
  return {
    unwrittenSinceMs,
    lastSyncMs,
    startedMs,
    lateMs: 2 * options.pacing.syncPeriodMs,
    adopted: part.adopted,
    // Before the source has told everything, its absence means nothing.
    nodeEligible: !store.synced || isEligible(store.cluster.node, options.source.kind === 'kubernetes'),
    families: part.families.map((family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')),
    waitingServices: lastReport?.waiting?.size ?? 0,
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
function buildPipeline(daemon: Daemon, listener: PipelineListener): Pipeline {
  const { options, source, part, log, clock } = daemon
  const { dataplane, node } = part
  const { store, onChange } = source
  const firstSync = Promise.withResolvers<string>()
  let addresses: readonly string[] = []
  const facts = () => nodeFacts(options.nodeName, store.cluster.node, addresses, part.model)
  const { detectLocal, nodePortAddresses } = part.model
  // What it says is not told yet, rather than nothing: a restart must not close the node ports for a moment, or open all.
  const isNodeUnknown = () => store.cluster.node === undefined && !store.synced
  const syncLog = createSyncLog(log, (desired) => firstSync.resolve(amountText(desired)))
  const tell = (how: (observer: Partial<SyncObserver>) => void) =>
    [syncLog, ...listener.observers].forEach(how)
  const loop = new SyncLoop<Model>(
    {
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
    },
    pacingWith(part.pacing, options.pacing),
  )
  const follower = new NodeFollower({
    internalIPs: () => store.cluster.node?.internalIPs ?? [],
    detectLocal,
    patterns: options.devicePatterns,
    localCidrs: () =>
      detectLocal.mode === 'NodeCIDR' && isNodeUnknown() ? undefined : Object.values(localCidrs(facts())),
    setLocalCidrs: (cidrs) => node.setLocalCidrs(cidrs),
    setDevices: node.setDevices,
    nodePorts: () => (nodePortAddresses === 'primary' && isNodeUnknown() ? undefined : facts()),
    setNodeAddresses: (wanted, everywhere) => {
      listener.addresses(wanted)
      return node.setNodeAddresses(wanted, everywhere)
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
