/** The daemon's servers, started: health, metrics and the health-check node ports. */

import type { Clock } from '../clock.ts'
import type { RunOptions } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import type { BindAddress } from '../config/server-options.ts'
import type { NodeAddress } from '../layout/node-addresses.ts'
import type { Logger } from '../log.ts'
import type { ModelSettings } from '../model/settings.ts'
import type { HealthCheck } from '../model/types.ts'
import { isLate, type ProxyState } from '../server/health.ts'
import { HealthCheckServers } from '../server/health-checks.ts'
import { Listener, type Responder, whyNot } from '../server/listener.ts'
import { healthRoutes, metricsRoutes, type ProxyMode } from '../server/routes.ts'
import type { MetricsKeeper } from './metrics.ts'

const HEALTH_SERVER = 'the health server'
const METRICS_SERVER = 'the metrics server'

export interface ServersOptions
  extends Pick<RunOptions, 'healthzBindAddress' | 'metricsBindAddress' | 'bindAddressHardFail'> {
  readonly nodePortAddresses: ModelSettings['nodePortAddresses']
  readonly state: () => ProxyState
  readonly proxyMode: ProxyMode
  /** The body of `/configz`. */
  readonly configuration: () => unknown
  readonly metrics: Pick<MetricsKeeper, 'answered' | 'scrape'>
  readonly clock: Clock
  readonly log: Pick<Logger, 'debug' | 'info' | 'warn'>
  /** See `HealthCheckServersOptions`. */
  readonly healthCheckFailed?: (check: HealthCheck, why: string) => void
}

export interface Servers {
  readonly healthChecks: HealthCheckServers
  /** The node's addresses are these: the health-check node ports are at those that take node ports. */
  setAddresses(addresses: readonly NodeAddress[]): void
  close(): void
}

/**
 * Whether the ports can be had, asked before anything is changed in the kernel.
 *
 * @throws Refusal for one that cannot, where that is not to wait
 */
export async function checkPorts(
  options: Pick<
    ServersOptions,
    'healthzBindAddress' | 'metricsBindAddress' | 'bindAddressHardFail' | 'clock' | 'log'
  >,
): Promise<void> {
  if (!options.bindAddressHardFail) return
  const nothing = { code: 503, type: 'text/plain', body: '' } as const
  for (const [name, at] of [
    [HEALTH_SERVER, options.healthzBindAddress],
    [METRICS_SERVER, options.metricsBindAddress],
  ] as const) {
    for (const listener of await listen(name, at, () => nothing, options)) listener.close()
  }
}

/** @throws Refusal for a port that cannot be had, where that is not to wait */
export async function startServers(options: ServersOptions): Promise<Servers> {
  const { nodePortAddresses, state, metrics, clock, log } = options
  const now = () => ({ monotonicMs: clock.nowMs(), wallMs: Date.now() })
  const listeners = [
    ...(await listen(
      HEALTH_SERVER,
      options.healthzBindAddress,
      healthRoutes(state, now, metrics.answered),
      options,
    )),
    ...(await listen(
      METRICS_SERVER,
      options.metricsBindAddress,
      metricsRoutes(metrics.scrape, options.proxyMode, options.configuration),
      options,
    )),
  ]
  const isHealthy = () => !isLate(state(), clock.nowMs())
  const { healthCheckFailed: failed } = options
  const healthChecks = new HealthCheckServers({ isHealthy, clock, log, ...(failed && { failed }) })
  const isEverywhere = nodePortAddresses.length === 0
  if (isEverywhere) healthChecks.setAddresses('every')
  return {
    healthChecks,
    setAddresses: (addresses) => {
      if (isEverywhere) return
      const chosen = addresses.filter(({ nodePort, loopback }) => nodePort && !loopback)
      healthChecks.setAddresses(chosen.map(({ address }) => address))
    },
    close: () => {
      healthChecks.close()
      for (const listener of listeners) listener.close()
    },
  }
}

async function listen(
  name: string,
  at: BindAddress | undefined,
  respond: Responder,
  { bindAddressHardFail, clock, log }: Pick<ServersOptions, 'bindAddressHardFail' | 'clock' | 'log'>,
): Promise<readonly Listener[]> {
  if (at === undefined) return []
  const listener = new Listener({ name, ...at, respond, clock, log })
  if (!bindAddressHardFail) {
    listener.start()
    return [listener]
  }
  try {
    await listener.listen()
    return [listener]
  } catch (error) {
    const why = error instanceof Error ? whyNot(error, at.address, at.port) : String(error)
    throw new Refusal(`${name} ${why}, and --bind-address-hard-fail is given`, { cause: error })
  }
}
