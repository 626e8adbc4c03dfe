/** What keeps right whose sockets are served, and the sockets that the programs have connected. */

import { netnsCookie } from 'libbpf-ts'
import type { RunOptions } from '../cli/options.ts'
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { StaleSockets } from '../dataplane/bpf/stale-sockets.ts'
import { layoutOf } from '../layout/family.ts'
import type { Logger } from '../log.ts'
import { NetnsFolder } from '../node/netns.ts'
import { PodSocketsFollower } from './pod-sockets.ts'
import type { StartedSource } from './start-source.ts'

export interface SocketKeeper {
  /** To be called now and then: looks at whatever may be wrong. */
  repeat(): Promise<void>
  /** The kernel is as the services say: from now on sockets may be found wrong. */
  synced(): void
  /** Resolves when nothing is being done. */
  idle(): Promise<void>
}

/** Follows the pods, and the dataplane: whenever UDP backends go, sockets that were connected to them are destroyed. */
export function keepSockets(
  { socketLoadBalancing: mode, netnsDir }: Pick<RunOptions, 'socketLoadBalancing' | 'netnsDir'>,
  dataplane: BpfDataplane,
  { store, onChange }: StartedSource,
  log: Pick<Logger, 'debug' | 'warn'>,
): SocketKeeper {
  const folder = new NetnsFolder(netnsDir)
  const own = netnsCookie()
  const pods = new PodSocketsFollower({ mode, store, folder, map: dataplane.map('socket_netns'), log })
  const stale = new StaleSockets({
    maps: dataplane.families.map(layoutOf).map((layout) => ({
      layout,
      sockets: dataplane.map(`sockets${layout.number}`),
      backends: dataplane.map(`backends${layout.number}`),
    })),
    findNetns: (cookie) => (cookie === own ? 'own' : folder.find(cookie)),
    log,
  })
  onChange(() => pods.objectsChanged())
  dataplane.onUdpBackendsGone(() => stale.request())
  return {
    repeat: async () => {
      await stale.repeat()
      pods.refresh()
    },
    synced: () => stale.request(),
    idle: () => stale.idle(),
  }
}
