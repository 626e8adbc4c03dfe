/** Rules of others that will see less than before Sluice: looked for once, and named. */

import { TABLE } from '../dataplane/bpf/nft-table.ts'
import { type RunCommand, runCommand } from '../dataplane/netfilter/command.ts'
import {
  EFFECT_TEXT,
  type Ports,
  type RuleFinding,
  rulesThatMiss,
  type Served,
} from '../dataplane/netfilter/foreign-rules.ts'
import { readForeignRules } from '../dataplane/netfilter/read-foreign-rules.ts'
import type { Logger } from '../log.ts'
import type { DesiredState } from '../model/types.ts'

/** So many are named; of the others the number is told. */
const NAMED_MAX = 10

/** What this node would have them miss. Never rejects. */
export async function findForeignRules(served: Served, run: RunCommand = runCommand): Promise<RuleFinding[]> {
  return rulesThatMiss(await readForeignRules({ run, ownTable: TABLE }), served)
}

/** One warning for each rule. Never rejects. */
export async function warnOfForeignRules(
  served: Served,
  log: Pick<Logger, 'warn'>,
  run: RunCommand = runCommand,
): Promise<void> {
  const found = await findForeignRules(served, run)
  for (const { tool, family, table, chain, rule, effect } of found.slice(0, NAMED_MAX)) {
    log.warn(`a rule of others ${EFFECT_TEXT[effect]}`, { tool, family, table, chain, rule })
  }
  const others = found.length - NAMED_MAX
  if (others > 0) log.warn(`there are ${others} more such rules of others: sluice probe names them all`)
}

/** What Sluice translates, by the services and the node's addresses. */
export function servedOf(
  desired: Pick<DesiredState, 'services'>,
  nodeAddresses: Iterable<string>,
  nodePorts: Ports,
): Served {
  const frontends = [...desired.services.values()].flatMap((ports) =>
    ports.flatMap((port) =>
      port.frontends.flatMap(({ address, port: number }) =>
        address === undefined ? [] : { address, port: number },
      ),
    ),
  )
  return { nodeAddresses: new Set(nodeAddresses), nodePorts, frontends }
}
