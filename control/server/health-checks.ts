/** The health-check node ports of the node: a listener for each, which tells how many endpoints of its service are here. */

import type { Clock } from '../clock.ts'
import type { Logger } from '../log.ts'
import type { HealthCheck, ServiceKey } from '../model/types.ts'
import { type Answer, Listener } from './listener.ts'

export interface HealthCheckServersOptions {
  /** Whether the proxy does its work. */
  readonly isHealthy: () => boolean
  readonly clock: Clock
  readonly log: Pick<Logger, 'debug' | 'info' | 'warn'>
  /** Hears, in the words of the log, why nobody listens for it. */
  readonly failed?: (check: HealthCheck, why: string) => void
}

/** kube-proxy's body to the letter: whatever the path and the method. */
export function healthCheckAnswer(check: HealthCheck, isHealthy: boolean): Answer {
  const { namespace, name, localEndpoints } = check
  const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: isHealthy }
  return {
    code: localEndpoints > 0 && isHealthy ? 200 : 503,
    type: 'application/json',
    headers: { 'X-Load-Balancing-Endpoint-Weight': String(localEndpoints) },
    body: JSON.stringify(body, undefined, '\t'),
  }
}

const EVERYWHERE = ['0.0.0.0']

/**
 * Told what is to be answered, and where. A listener lives as long as its service, port and address are wanted: what
 * else changes does not touch it.
 */
export class HealthCheckServers {
  readonly #options: HealthCheckServersOptions
  readonly #listeners = new Map<string, Listener>()
  #checks: ReadonlyMap<ServiceKey, HealthCheck> = new Map()
  #addresses: readonly string[] | undefined

  constructor(options: HealthCheckServersOptions) {
    this.#options = options
  }

  /** What the kernel holds now goes with these. Nothing is done if they are those of the last call. */
  setChecks(checks: ReadonlyMap<ServiceKey, HealthCheck>): void {
    if (checks === this.#checks) return
    this.#checks = checks
    this.#reconcile()
  }

  /** Addresses of the node, canonical, or every one it has. Nothing listens before they are known. */
  setAddresses(addresses: readonly string[] | 'every'): void {
    const wanted = addresses === 'every' ? EVERYWHERE : addresses
    if (wanted.join() === this.#addresses?.join()) return
    this.#addresses = wanted
    this.#reconcile()
  }

  /** How many listen, or try to. */
  get size(): number {
    return this.#listeners.size
  }

  close(): void {
    this.#checks = new Map()
    this.#reconcile()
  }

  #reconcile(): void {
    const wanted = new Map<string, { key: ServiceKey; check: HealthCheck; address: string }>()
    for (const [key, check] of this.#checks) {
      for (const address of this.#addresses ?? []) {
        wanted.set(`${key} ${check.port} ${address}`, { key, check, address })
      }
    }
    // First: a port may have gone from one service to another.
    for (const [id, listener] of this.#listeners) {
      if (wanted.has(id)) continue
      listener.close()
      this.#listeners.delete(id)
    }
    for (const [id, { key, check, address }] of wanted) {
      if (!this.#listeners.has(id)) this.#listeners.set(id, this.#listen(key, check, address))
    }
  }

  #listen(key: ServiceKey, check: HealthCheck, address: string): Listener {
    const { clock, log, isHealthy, failed } = this.#options
    const listener = new Listener({
      name: `health-check node port ${check.port} of Service ${key}`,
      address,
      port: check.port,
      respond: () => healthCheckAnswer(this.#checks.get(key) ?? check, isHealthy()),
      clock,
      log,
      failed: (why) => failed?.(check, why),
    })
    listener.start()
    return listener
  }
}
