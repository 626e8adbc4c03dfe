/** From one dataplane of ours to the other, while traffic flows. */

import { existsSync, readdirSync, rmdirSync } from 'node:fs'
import { kernel, openNetlink } from 'libbpf-ts'
import { removeAttachments } from '../dataplane/bpf/device-hooks.ts'
import { type HandoverMaps, type HandoverReport, handOverFlows } from '../dataplane/bpf/flow-handover.ts'
import { removeNetfilter } from '../dataplane/bpf/netfilter.ts'
import { removeSocketLinks } from '../dataplane/bpf/pinned-links.ts'
import { pinPath, removeMapPins } from '../dataplane/bpf/pins.ts'
import { removeServiceRules } from '../dataplane/iptables/removal.ts'
import { familyLayouts } from '../layout/family.ts'
import type { Logger } from '../log.ts'
import { removeMounts } from './host.ts'

export interface TakeOverOptions {
  readonly bpfRoot: string
  readonly log: Pick<Logger, 'debug' | 'info' | 'warn'>
}

/**
 * What the eBPF dataplane has left in the kernel becomes the iptables dataplane's: its flows are handed over to netfilter,
 * one by one, and all that is of it is removed. For when the rules are complete. Does nothing where nothing is left.
 */
export async function takeOverFromBpf({ bpfRoot, log }: TakeOverOptions): Promise<void> {
  // The last trace to go: a look at it is enough.
  if (!existsSync(bpfRoot)) return
  const removed = [...(await drainBpf(bpfRoot, log)), ...(await removeMounts())]
  if (removed.length > 0)
    log.info('removed what the eBPF dataplane had in the kernel', { traces: removed.length })
}

/**
 * The rules of our iptables dataplane go, if there are any: the programs balance what is new, and of the connections that
 * the rules translated netfilter remembers the translation. For when the programs are attached, and know the services.
 */
export async function takeOverFromIptables({ log }: Pick<TakeOverOptions, 'log'>): Promise<void> {
  const removed = await removeServiceRules({ whose: 'ours' })
  if (removed.length > 0) log.info('removed the rules of the iptables dataplane', { traces: removed.length })
}

/**
 * Hands all flows over to netfilter and removes the eBPF dataplane; with a name for each trace. Connections that cannot be
 * handed over end, and are told of.
 */
export async function drainBpf(bpfRoot: string, log: TakeOverOptions['log']): Promise<string[]> {
  // What processes of the node connect to from now on is the rules' business; their connections need no translation.
  const removed = removeSocketLinks(bpfRoot)
  const report = await handOver(bpfRoot, log)
  if (report !== undefined && report.handedOver > 0)
    log.info('handed connections over to netfilter', {
      connections: report.handedOver,
      longestHoldMs: report.longestHoldMs,
    })
  if (report !== undefined && report.lost > 0)
    log.warn('connections that netfilter did not take end', { connections: report.lost })
  return [...removed, ...(await removeBpf(bpfRoot))]
}

/** Takes everything of the eBPF dataplane out of the kernel, in the order in which nothing is left half working. */
export async function removeBpf(bpfRoot: string): Promise<string[]> {
  const removed = await removeAttachments(bpfRoot)
  removed.push(...(await removeNetfilter()).removed)
  removed.push(...removeMapPins(bpfRoot).map((path) => `map ${path}`))
  if (existsSync(bpfRoot) && readdirSync(bpfRoot).length === 0) {
    rmdirSync(bpfRoot)
    removed.push(`folder ${bpfRoot}`)
  }
  return removed
}

/** Undefined when there are no maps of this layout. */
async function handOver(bpfRoot: string, log: TakeOverOptions['log']): Promise<HandoverReport | undefined> {
  const opened = openMaps(bpfRoot)
  try {
    if (opened.length === 0) return undefined
    using netlink = openNetlink({ family: 'netfilter' })
    return await handOverFlows({ maps: opened, netlink, log })
  } finally {
    for (const { flows, embryonic, backends, stateMap } of opened) {
      for (const map of [flows, embryonic, backends, stateMap]) map.close()
    }
  }
}

function openMaps(bpfRoot: string) {
  const open = (name: string) => kernel.openPinnedMap(pinPath(bpfRoot, name))
  return familyLayouts
    .filter(({ number }) => kernel.pins.exists(pinPath(bpfRoot, `flows${number}`)))
    .map((layout): HandoverMaps & { readonly stateMap: ReturnType<typeof open> } => {
      const { number } = layout
      const stateMap = open(`state${number}`)
      return {
        layout,
        flows: open(`flows${number}`),
        embryonic: open(`embryonic${number}`),
        backends: open(`backends${number}`),
        state: stateMap.memory(),
        stateMap,
      }
    })
}
