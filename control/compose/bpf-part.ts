/** What is of the eBPF dataplane alone: the programs on devices and sockets, its few netfilter rules, the flows. */

import type { Clock } from '../clock.ts'
import { Attachments } from '../dataplane/bpf/attachments.ts'
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { createNetfilter } from '../dataplane/bpf/netfilter.ts'
import { Sweeper } from '../dataplane/bpf/sweeper.ts'
import { UdpTranslations } from '../dataplane/netfilter/udp-translations.ts'
import { layoutOf } from '../layout/family.ts'
import type { Logger } from '../log.ts'
import { SCHEDULERS } from '../model/schedulers.ts'
import type { ModelSettings } from '../model/settings.ts'
import type { Family } from '../model/types.ts'
import { defaultPacing } from '../sync/parts.ts'
import { type BpfSources, lookAtBpf } from './bpf-metrics.ts'
import { type DataplanePart, type NodeHooks, type PartOptions, UnfitError } from './dataplane-part.ts'
import { type Drops, keepDrops } from './drops.ts'
import { servedOf, warnOfForeignRules } from './foreign-rules.ts'
import { FormerStreams } from './former-streams.ts'
import { checkKernel, hasOwnMount, kernelHas, prepareMounts, removeMounts } from './host.ts'
import { LocalOutput } from './local-output.ts'
import type { Repetition } from './repeat.ts'
import { packetSettings } from './settings.ts'
import { keepSockets } from './sockets.ts'
import { startDataplane } from './start-dataplane.ts'
import { takeOverFromIptables } from './takeover.ts'

const SWEEP_INTERVAL_MS = 1000
const CHECK_INTERVAL_MS = 5000
const RECOUNT_INTERVAL_MS = 60_000
const NETFILTER_INTERVAL_MS = 30_000

/**
 * Mounts what is missing and loads the programs. Throws UnfitError where the kernel cannot do it, a Refusal for what can
 * be mended, or what the kernel says.
 */
export async function startBpfPart({ options, source, log, clock }: PartOptions): Promise<DataplanePart> {
  checkKernel()
  const { bpfRoot, attach } = options
  const hadMount = hasOwnMount()
  const cgroupRoot = await prepareMounts(options, log)
  const settings = packetSettings(options)
  const { marks, nodePorts } = settings
  const { dataplane, adopted } = await startDataplane(options, settings, log).catch(async (error) => {
    // Nothing of this try stays where another dataplane is to be tried.
    if (error instanceof UnfitError && !hadMount) await removeMounts()
    throw error
  })
  const { families } = dataplane
  const attachments = new Attachments({ object: dataplane, families, bpfRoot, cgroupRoot, attach, log })
  dataplane.onProgramsReplaced(() => attachments.programsReplaced())
  const way = attachments.kind === 'tcx' ? 'tcx links' : 'clsact filters, which live with the device'
  log.info(`programs are attached to devices by ${way}`)
  const netfilter = createNetfilter({ marks, nodePorts, families: families.filter(kernelHas), log })
  const localOutput = new LocalOutput(netfilter, new UdpTranslations({ log }))
  const sockets = keepSockets({ ...options, dataplane, source, cgroupRoot, log, nodePorts, attachments })
  const formerStreams = new FormerStreams({ families, mayBe: () => dataplane.isHandingOver, log })
  const drops = keepDrops({ dataplane, log, clock })
  const sweepers = families.map((family) => createSweeper(dataplane, family, clock))
  let netfilterReady = Promise.resolve()
  let foreignRulesTold = Promise.resolve()
  let nodeAddresses: readonly string[] = []
  const node: NodeHooks = {
    setDevices: (devices) => {
      drops.setDevices(devices)
      return attachments.setDevices(devices)
    },
    setLocalCidrs: (cidrs) => dataplane.setLocalCidrs(cidrs),
    setNodeAddresses: (addresses) => {
      localOutput.setAddresses(addresses)
      formerStreams.setAddresses(addresses)
      nodeAddresses = addresses.map(({ address }) => address)
      return dataplane.setNodeAddresses(addresses)
    },
  }
  return {
    dataplane,
    families,
    model: modelOf(options),
    pacing: defaultPacing,
    adopted,
    node,
    begin: () => {
      netfilterReady = netfilter.ensure()
      attachSockets(attachments, log)
      return netfilterReady
    },
    synced: (outcome) => {
      localOutput.synced(outcome)
      formerStreams.synced(outcome)
      if (!outcome.first) return
      sockets.synced()
      foreignRulesTold = warnOfForeignRules(servedOf(outcome.desired, nodeAddresses, nodePorts), log)
    },
    takeOver: () => takeOverFromIptables({ log }),
    look: (metrics) => lookAtBpf(metrics, sourcesOf({ dataplane, drops, attachments, sweepers })),
    repetitions: [
      ...sweepers.map(({ sweeper }): Repetition => {
        return {
          name: 'the sweep of expired flows',
          intervalMs: SWEEP_INTERVAL_MS,
          act: () => sweeper.sweep(),
        }
      }),
      { name: 'the look at the drop counters', intervalMs: SWEEP_INTERVAL_MS, act: async () => drops.look() },
      { name: 'the repair of netfilter', intervalMs: NETFILTER_INTERVAL_MS, act: () => netfilter.ensure() },
      { name: 'the check of the attachments', intervalMs: CHECK_INTERVAL_MS, act: () => attachments.check() },
      recount(dataplane),
      { name: 'the look at sockets', intervalMs: CHECK_INTERVAL_MS, act: () => sockets.repeat() },
    ],
    idle: async () => {
      drops.close()
      await Promise.all([
        netfilterReady,
        foreignRulesTold,
        localOutput.idle(),
        formerStreams.idle(),
        sockets.idle(),
      ])
    },
  }
}

function recount(dataplane: BpfDataplane): Repetition {
  return {
    name: 'the recount of connections',
    intervalMs: RECOUNT_INTERVAL_MS,
    act: () => dataplane.mendLoads(),
  }
}

function modelOf({ model, scheduler = 'round-robin' }: PartOptions['options']): ModelSettings {
  return { ...model, scheduler, schedulers: SCHEDULERS }
}

/** Processes of the node are one part of the traffic: without them the rest still works, and `check` tries again. */
function attachSockets(attachments: Attachments, log: Logger): void {
  try {
    attachments.attachSockets()
  } catch (error) {
    log.warn('cannot attach the socket programs: processes of this node are not served', { err: error })
  }
}

function sourcesOf(parts: {
  readonly dataplane: BpfDataplane
  readonly drops: Drops
  readonly attachments: Attachments
  readonly sweepers: readonly FamilySweeper[]
}): BpfSources {
  const { dataplane, drops, attachments, sweepers } = parts
  const flows = sweepers.flatMap(({ map, sweeper: { used, capacity } }) =>
    used === undefined ? [] : [{ map, used, entries: capacity }],
  )
  return {
    counts: drops.counts,
    devices: attachments.devices,
    maps: [...dataplane.fills(), ...flows],
    services: dataplane.serviceCounters(),
  }
}

/** Who sweeps a table of flows. */
interface FamilySweeper {
  /** Its table. */
  readonly map: string
  readonly sweeper: Sweeper
}

function createSweeper(dataplane: BpfDataplane, family: Family, { nowMs }: Clock): FamilySweeper {
  const suffix = layoutOf(family).number
  const map = `flows${suffix}`
  const sweeper = new Sweeper({
    program: () => dataplane.program(`sweep${suffix}`),
    state: dataplane.map(`state${suffix}`).memory(),
    capacity: dataplane.map(map).maxEntries,
    clock: nowMs,
  })
  return { map, sweeper }
}
