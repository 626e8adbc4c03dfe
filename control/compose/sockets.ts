/** What keeps right whose sockets are served, and the sockets that the programs have connected. */

import { netnsCookie } from 'libbpf-ts'
import type { RunOptions } from '../config/options.ts'
import type { Attachments } from '../dataplane/bpf/attachments.ts'
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { masqueradePorts, type PortRange } from '../dataplane/bpf/nft-table.ts'
import { testSockets } from '../dataplane/bpf/socket-self-test.ts'
import { StaleConntrack } from '../dataplane/bpf/stale-conntrack.ts'
import { StaleSockets } from '../dataplane/bpf/stale-sockets.ts'
import { layoutOf } from '../layout/family.ts'
import type { Logger } from '../log.ts'
import { NetnsFolder } from '../node/netns.ts'
import { PodSocketsFollower } from './pod-sockets.ts'
import { ownCgroupFolder, SelfTest } from './self-test.ts'
import type { StartedSource } from './start-source.ts'

export interface SocketKeeperOptions extends Pick<RunOptions, 'socketLoadBalancing' | 'netnsDir'> {
  readonly dataplane: BpfDataplane
  readonly source: StartedSource
  /** What the socket programs are attached to. */
  readonly cgroupRoot: string
  /** The node-port range. */
  readonly nodePorts: PortRange
  readonly attachments: Pick<Attachments, 'areSocketsAttached'>
  readonly log: Pick<Logger, 'debug' | 'info' | 'warn'>
}

export interface SocketKeeper {
  /** To be called now and then: looks at whatever may be wrong. */
  repeat(): Promise<void>
  /** The kernel is as the services say: from now on sockets may be found wrong. */
  synced(): void
  /** Resolves when nothing is being done. */
  idle(): Promise<void>
}

/** Follows the pods, and the dataplane: whenever UDP backends go, sockets that were connected to them are destroyed. */
export function keepSockets(options: SocketKeeperOptions): SocketKeeper {
  const {
    socketLoadBalancing: mode,
    netnsDir,
    dataplane,
    source,
    cgroupRoot,
    nodePorts,
    attachments,
    log,
  } = options
  const { store, onChange } = source
  const folder = new NetnsFolder(netnsDir)
  const own = netnsCookie()
  const maps = dataplane.families.map(layoutOf).map((layout) => ({
    layout,
    sockets: dataplane.map(`sockets${layout.number}`),
    flows: ['flows', 'embryonic'].map((name) => dataplane.map(`${name}${layout.number}`)),
    // These grow, and are others then.
    get backends() {
      return dataplane.map(`backends${layout.number}`)
    },
    get frontends() {
      return dataplane.map(`frontends${layout.number}`)
    },
    get nodeports() {
      return dataplane.map(`nodeports${layout.number}`)
    },
    get lists() {
      return dataplane.map('lists')
    },
    filter: dataplane.map('filter').memory(),
  }))
  const pods = new PodSocketsFollower({ mode, store, folder, map: dataplane.map('socket_netns'), log })
  const findNetns = (cookie: bigint) => (cookie === own ? 'own' : folder.find(cookie))
  const stale = new StaleSockets({ maps, findNetns, log })
  const conntrack = new StaleConntrack({ maps, ports: masqueradePorts(nodePorts), log })
  const selfTest = new SelfTest({
    test: () => testSockets(maps),
    cgroupRoot,
    ownCgroup: ownCgroupFolder,
    log,
  })
  const test = async () => {
    if (attachments.areSocketsAttached) await selfTest.look()
  }
  onChange(() => pods.objectsChanged())
  dataplane.onUdpBackendsGone((backends) => {
    stale.request()
    conntrack.gone(backends)
  })
  return {
    repeat: async () => {
      await stale.repeat()
      await conntrack.repeat()
      await test()
      pods.refresh()
    },
    synced: () => {
      stale.request()
      // What fails, fails again in the next repetition, which tells it.
      test().catch(() => undefined)
    },
    idle: async () => {
      await Promise.all([stale.idle(), conntrack.idle()])
    },
  }
}
