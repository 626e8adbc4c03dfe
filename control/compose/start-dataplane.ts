/** The eBPF dataplane, started; what can be mended by whoever starts it becomes a refusal that says how. */

import { BpfError, IncompatibleMapError, netnsCookie, probeHelper, probeKernelConstant } from 'libbpf-ts'
import { kernelText } from '../cli/requirements.ts'
import type { RunOptions } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { MapSizeError } from '../dataplane/bpf/objects.ts'
import type { Logger } from '../log.ts'
import { hasConntrackLookup, loadConntrack } from './conntrack.ts'
import { UnfitError } from './dataplane-part.ts'
import { OBJECT_FOLDER } from './objects.ts'
import type { PacketSettings } from './settings.ts'

/**
 * Loads the programs and adopts what an earlier daemon left. Throws a Refusal, UnfitError where the kernel cannot do it,
 * or what it says.
 */
export async function startDataplane(
  options: Pick<RunOptions, 'bpfRoot' | 'mapSizes' | 'socketLoadBalancing'>,
  settings: PacketSettings,
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<{ readonly dataplane: BpfDataplane; readonly adopted: boolean }> {
  const { bpfRoot, mapSizes, socketLoadBalancing } = options
  await loadConntrack()
  const kernelFunctions = hasConntrackLookup()
  const dataplane = new BpfDataplane({
    objectFolder: OBJECT_FOLDER,
    kernelFunctions,
    bpfRoot,
    mapSizes,
    constants: {
      ...constants(settings),
      have_ct_lookup: kernelFunctions ? 1 : 0,
      serve_all_netns: socketLoadBalancing === 'all' ? 1 : 0,
    },
    onGrown: (sizes) =>
      log.info('maps of services were nearly full, and are larger now', Object.fromEntries(sizes)),
  })
  try {
    const { adopted, services, backends } = await dataplane.start()
    const wasDraining = dataplane.endDraining()
    if (!adopted || wasDraining) dataplane.beginHandover(settings.timeouts.handover)
    log.info(adopted ? 'adopted what an earlier daemon left' : 'nothing to adopt: the maps are new', {
      services,
      backends,
    })
    for (const [family, error] of dataplane.refused) {
      log.warn(`the kernel refuses the programs of ${family}: that family is not served`, { err: error })
    }
    return { dataplane, adopted }
  } catch (error) {
    throw refusalOf(error) ?? unfitOf(error) ?? error
  }
}

/** Values of the object's constants, by their C names; the others keep the object's own. */
function constants({ marks, nodePorts, timeouts }: PacketSettings): Record<string, number | bigint> {
  return {
    host_netns_cookie: netnsCookie() ?? 0n,
    mark_masquerade: marks.masquerade,
    mark_accept: marks.accept,
    mark_redirect: marks.redirect,
    node_port_first: nodePorts.first,
    node_port_last: nodePorts.last,
    tcp_established_seconds: timeouts.tcpEstablished,
    tcp_half_closed_seconds: timeouts.tcpCloseWait,
    udp_unreplied_seconds: timeouts.udp,
    udp_replied_seconds: timeouts.udpStream,
    have_csum_ipv6: probeKernelConstant('BPF_F_IPV6').supported === 'yes' ? 1 : 0,
    have_set_retval: probeHelper('cgroup_sock_addr', 'set_retval').supported === 'yes' ? 1 : 0,
  }
}

/** They say that too much is asked for, or that something has run out: not that the kernel cannot do it. */
const PASSING = ['E2BIG', 'ENOMEM', 'ENOSPC', 'EAGAIN', 'EINTR', 'EBUSY', 'EMFILE', 'ENFILE']

/** The kernel does not take the programs or their maps, and would not the next time. */
export function unfitOf(error: unknown): UnfitError | undefined {
  if (!(error instanceof BpfError) || PASSING.includes(error.errnoName)) return undefined
  return new UnfitError([`kernel ${kernelText()} refuses the programs (${error.message})`], { cause: error })
}

function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof MapSizeError) return new Refusal(`--map-size: ${error.message}`, { cause: error })
  if (!(error instanceof IncompatibleMapError)) return undefined
  const differences = error.differences
    .map(({ field, pinned, wanted }) => `${field} is ${pinned}, wanted ${wanted}`)
    .join('; ')
  return new Refusal(
    `the map pinned at ${error.path} is of another make: ${differences}. Start with the --map-size it was made with, ` +
      'or remove everything with `sluice cleanup`, which ends the connections that are being translated',
    { cause: error },
  )
}
