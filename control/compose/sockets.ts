/** What keeps the sockets right that the programs have connected. */

import { netnsCookie } from 'libbpf-ts'
import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts'
import { StaleSockets } from '../dataplane/bpf/stale-sockets.ts'
import { familyLayouts } from '../layout/family.ts'
import type { Logger } from '../log.ts'

/** Follows the dataplane: whenever UDP backends go, the sockets that were connected to them are destroyed. */
export function createStaleSockets(
  dataplane: BpfDataplane,
  log: Pick<Logger, 'debug' | 'warn'>,
): StaleSockets {
  const own = netnsCookie()
  const layouts = familyLayouts.filter(({ family }) => dataplane.families.includes(family))
  const stale = new StaleSockets({
    maps: layouts.map((layout) => ({
      layout,
      sockets: dataplane.map(`sockets${layout.number}`),
      backends: dataplane.map(`backends${layout.number}`),
    })),
    findNetns: (cookie) => (cookie === own ? 'own' : undefined),
    log,
  })
  dataplane.onUdpBackendsGone(() => stale.request())
  return stale
}
