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

/** Those of the daemon itself. */
export type ServerName = 'health' | 'metrics'

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
  /** Hears why a server does not listen: once for as long as it is the same. */
  readonly serverFailed?: (server: ServerName, why: string) => void
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
    'healthzBindAddress' | 'metricsBindAddress' | 'bindAddressHardFail' | 'clock' | 'log' | 'serverFailed'
  >,
): Promise<void> {
  if (!options.bindAddressHardFail) return
  const nothing = { code: 503, type: 'text/plain', body: '' } as const
  for (const [name, at] of [
    ['health', options.healthzBindAddress],
    ['metrics', options.metricsBindAddress],
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
      'health',
      options.healthzBindAddress,
      healthRoutes(state, now, metrics.answered),
      options,
    )),
    ...(await listen(
      'metrics',
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
  server: ServerName,
  at: BindAddress | undefined,
  respond: Responder,
  {
    bindAddressHardFail,
    clock,
    log,
    serverFailed,
  }: Pick<ServersOptions, 'bindAddressHardFail' | 'clock' | 'log' | 'serverFailed'>,
): Promise<readonly Listener[]> {
  if (at === undefined) return []
  const name = `the ${server} server`
  const failed = (why: string) => serverFailed?.(server, why)
  const listener = new Listener({ name, ...at, respond, clock, log, failed })
  if (!bindAddressHardFail) {
    listener.start()
    return [listener]
  }
  try {
    await listener.listen()
    return [listener]
  } catch (error) {
    const why = `${name} ${error instanceof Error ? whyNot(error, at.address, at.port) : error}`
    failed(why)
    throw new Refusal(`${why}, and --bind-address-hard-fail is given`, { cause: error })
  }
}
