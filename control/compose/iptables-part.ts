/** What is of the iptables dataplane alone: who is a pod to its rules, and the look whether somebody flushed them. */

import type { RunOptions } from '../config/options.ts'
import type { SyncReport } from '../dataplane/dataplane.ts'
import { IptablesDataplane, NoIptablesError } from '../dataplane/iptables/dataplane.ts'
import type { Counter, LocalPods } from '../dataplane/iptables/rule-settings.ts'
import type { Reconciled } from '../dataplane/iptables/stale-conntrack.ts'
import type { Logger } from '../log.ts'
import { parseCidr } from '../model/address.ts'
import { RULE_SCHEDULERS } from '../model/schedulers.ts'
import type { ModelSettings } from '../model/settings.ts'
import type { Family } from '../model/types.ts'
import { defaultPacing } from '../sync/parts.ts'
import { type DataplanePart, type PartOptions, UnfitError } from './dataplane-part.ts'
import { kernelHas } from './host.ts'
import { lookAtIptables } from './iptables-metrics.ts'
import { packetSettings } from './settings.ts'
import { takeOverFromBpf } from './takeover.ts'

const COUNTERS_INTERVAL_MS = 5000

/** Before iptables 1.8.8 whoever waits for the lock looks once a second whether it is free. */
const REST_MAX_MS = 1000

const FAMILIES: readonly Family[] = ['ipv4', 'ipv6']

const NOTHING_WRITTEN: SyncReport = { written: 0, deleted: 0, unchanged: 0, failed: [], durationMs: 0 }

/**
 * Finds out what the rules can be. Those that are there stay until the first sync. Throws UnfitError where iptables or
 * the kernel cannot do it.
 */
export async function startIptablesPart(parts: PartOptions): Promise<DataplanePart> {
  const { options, log, signal } = parts
  const model = iptablesModel(options)
  const reconciled: Reconciled[] = []
  let packets: ReadonlyMap<Counter, bigint> = new Map()
  const dataplane = new IptablesDataplane({
    families: FAMILIES.filter(kernelHas),
    masqueradeMark: packetSettings(options).marks.masquerade,
    localhostNodePorts: model.localhostNodePorts,
    log,
    signal,
    reconciled: (what) => reconciled.push(what),
  })
  const adopted = await start(dataplane, log)
  tellOfPods(options, log)
  tellOfScheduler(options.scheduler, log)
  let syncAll = () => {}
  return {
    dataplane,
    families: dataplane.families,
    model,
    // Legacy iptables keeps its lock meanwhile, and others must get it, too.
    pacing: { ...defaultPacing, restMaxMs: REST_MAX_MS },
    adopted,
    node: {
      setLocalCidrs: (cidrs) => {
        if (dataplane.setLocalPods(localPodsOf(model, cidrs))) syncAll()
      },
      setNodeAddresses: async (addresses, everywhere) => {
        if (dataplane.setNodeAddresses(addresses, everywhere)) syncAll()
        return NOTHING_WRITTEN
      },
    },
    begin: async (ask) => {
      syncAll = ask
    },
    synced: () => {},
    takeOver: () => takeOverFromBpf({ bpfRoot: options.bpfRoot, log }),
    look: (metrics) =>
      lookAtIptables(metrics, { counts: dataplane.counts(), reconciled: reconciled.splice(0), packets }),
    repetitions: [
      {
        name: 'the look whether somebody flushed the rules',
        // As kube-proxy does.
        intervalMs: options.pacing.syncPeriodMs,
        act: async () => {
          if (!(await dataplane.isFlushed())) return
          log.warn('somebody has flushed the rules of services: they are written again')
          syncAll()
        },
      },
      {
        name: 'the look at the counters of packets',
        intervalMs: COUNTERS_INTERVAL_MS,
        act: async () => {
          packets = await dataplane.packets()
        },
      },
    ],
    idle: () => dataplane.idle(),
  }
}

/** Whether an earlier daemon's rules are there. */
async function start(dataplane: IptablesDataplane, log: Pick<Logger, 'info'>): Promise<boolean> {
  try {
    const { adopted, services, backends } = await dataplane.start()
    if (adopted)
      log.info('the rules that an earlier daemon left serve until the first sync', { services, backends })
    return adopted
  } catch (error) {
    if (!(error instanceof NoIptablesError)) throw error
    throw new UnfitError([error.message], { cause: error })
  }
}

/** The rules are kube-proxy's, and so is what they do: its masquerade, and its scheduler where nobody says otherwise. */
export function iptablesModel({ model, scheduler }: Pick<RunOptions, 'model' | 'scheduler'>): ModelSettings {
  const { detectLocal } = model
  return {
    ...model,
    clientAddress: 'kube-proxy',
    // No rule can tell devices by their class. As with kube-proxy, without a range nobody is taken for a pod.
    detectLocal: detectLocal.mode === 'devices' ? { mode: 'ClusterCIDR', cidrs: {} } : detectLocal,
    scheduler: scheduler !== undefined && RULE_SCHEDULERS.includes(scheduler) ? scheduler : 'random',
    schedulers: RULE_SCHEDULERS,
  }
}

/** Whoever asks for a scheduler that rules cannot do is told so, once. */
function tellOfScheduler(asked: RunOptions['scheduler'], log: Pick<Logger, 'warn'>): void {
  if (asked === undefined || RULE_SCHEDULERS.includes(asked)) return
  log.warn(`iptables has no ${asked}, only ${RULE_SCHEDULERS.join(', ')}: random is used; see --scheduler`)
}

/**
 * The Node's `spec.podCIDRs` are not used unasked: many a CNI gives its pods other addresses, and then all of them would
 * be masqueraded.
 */
function tellOfPods({ model }: Pick<RunOptions, 'model'>, log: Pick<Logger, 'info'>): void {
  if (model.detectLocal.mode !== 'devices') return
  log.info(
    'iptables cannot tell pods from other clients by their devices, and nobody is taken for a pod: clients outside that \
are routed to ClusterIPs keep their addresses, as with kube-proxy; --cluster-cidr or --detect-local-mode tells them apart',
  )
}

/** What the rules match pods by, in each family; of none where they cannot be told from others. */
export function localPodsOf(
  { detectLocal }: Pick<ModelSettings, 'detectLocal'>,
  cidrs: readonly string[],
): Readonly<Partial<Record<Family, LocalPods>>> {
  switch (detectLocal.mode) {
    case 'devices':
      return {}
    case 'BridgeInterface':
      return inBoth({ by: 'device', name: detectLocal.name })
    case 'InterfaceNamePrefix':
      return inBoth({ by: 'device prefix', prefix: detectLocal.prefix })
    case 'ClusterCIDR':
    case 'NodeCIDR':
      return Object.fromEntries(
        cidrs.flatMap((text) => {
          const cidr = parseCidr(text)
          return cidr === undefined ? [] : [[cidr.family, { by: 'address', cidr: cidr.text }]]
        }),
      )
  }
}

function inBoth(pods: LocalPods): Readonly<Record<Family, LocalPods>> {
  return { ipv4: pods, ipv6: pods }
}
