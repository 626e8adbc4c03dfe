/** kube-proxy's `--init-only`: what takes every privilege is done, and no more. A daemon finds it done. */

import type { RunOptions } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import { ROUTE_LOCALNET } from '../dataplane/iptables/canary.ts'
import { systemSysctls } from '../dataplane/netfilter/sysctls.ts'
import { createLog } from '../log.ts'
import { tellConntrack } from './conntrack.ts'
import { UnfitError } from './dataplane-part.ts'
import { checkPrivileges, prepareMounts } from './host.ts'

/** @throws Refusal for what must change before it can be done; what the kernel says otherwise */
export async function initHost(options: RunOptions): Promise<void> {
  const { loggingFormat: format, verbosity, proxyMode, model, warnings } = options
  const log = createLog({ format, verbosity, write: (line) => process.stderr.write(line) })
  for (const warning of warnings) log.warn(warning)
  checkPrivileges(proxyMode)
  await tellConntrack(options, log)
  if (proxyMode === 'iptables') {
    if (model.localhostNodePorts) systemSysctls.write(ROUTE_LOCALNET, '1')
  } else {
    await prepareMounts(options, log).catch((error) => {
      throw error instanceof UnfitError ? new Refusal(error.message, { cause: error }) : error
    })
  }
  log.info('done, and no more: --init-only')
}
