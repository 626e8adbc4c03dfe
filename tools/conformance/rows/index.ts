/** The whole table, section by section. */

import type { Section } from '../types.ts'
import { AFFINITY } from './affinity.ts'
import { CLUSTER_IP } from './cluster-ip.ts'
import { CONNTRACK } from './conntrack.ts'
import { DUAL_STACK } from './dual-stack.ts'
import { EXTERNAL_POLICY } from './external-policy.ts'
import { HEALTH } from './health.ts'
import { INTERNAL_POLICY } from './internal-policy.ts'
import { LOAD_BALANCER } from './load-balancer.ts'
import { MASQUERADE } from './masquerade.ts'
import { NO_ENDPOINTS } from './no-endpoints.ts'
import { NODE_PORTS } from './node-ports.ts'
import { SLICES } from './slices.ts'
import { SYNC } from './sync.ts'
import { TERMINATING } from './terminating.ts'
import { TOPOLOGY } from './topology.ts'

export const SECTIONS: readonly Section[] = [
  MASQUERADE,
  CLUSTER_IP,
  NO_ENDPOINTS,
  NODE_PORTS,
  LOAD_BALANCER,
  EXTERNAL_POLICY,
  INTERNAL_POLICY,
  TERMINATING,
  AFFINITY,
  TOPOLOGY,
  HEALTH,
  CONNTRACK,
  SLICES,
  SYNC,
  DUAL_STACK,
]
