/** What the two servers of the daemon answer, by path. */

import { healthz, livez, type Now, type ProxyState, readyz } from './health.ts'
import type { Answer, Responder } from './listener.ts'
import { METRICS_TYPE } from './metrics.ts'

const NOT_FOUND: Answer = { code: 404, type: 'text/plain', body: '404 page not found\n' }

/**
 * The server for kubelets and load balancers.
 *
 * @param answered is told of each answer that is counted
 */
export function healthRoutes(
  state: () => ProxyState,
  now: () => Now,
  answered: (path: 'healthz' | 'livez', code: number) => void = () => undefined,
): Responder {
  const counted = (path: 'healthz' | 'livez', answer: Answer): Answer => {
    answered(path, answer.code)
    return answer
  }
  return (path) => {
    switch (path) {
      case '/healthz':
        return counted('healthz', healthz(state(), now()))
      case '/livez':
        return counted('livez', livez(state(), now()))
      case '/readyz':
        return readyz(state(), now())
      default:
        return NOT_FOUND
    }
  }
}

/** The dataplane, and in one word why it is this one. */
export interface ProxyMode {
  readonly dataplane: string
  readonly reason: string
}

/**
 * The server for whoever looks after the node. Its `/healthz` says that it answers, and no more, as kube-proxy's. So is
 * `/proxyMode`, whose body is the mode alone: `iptables` has the rules that tools look for behind that word, `bpf` is none
 * of kube-proxy's.
 *
 * @param configuration the body of `/configz`
 */
export function metricsRoutes(
  scrape: () => string,
  { dataplane, reason }: ProxyMode,
  configuration: () => unknown,
): Responder {
  return (path) => {
    switch (path) {
      case '/healthz':
        return { code: 200, type: 'text/plain', body: 'ok' }
      case '/metrics':
        return { code: 200, type: METRICS_TYPE, body: scrape() }
      case '/configz':
        return { code: 200, type: 'application/json', body: JSON.stringify(configuration()) }
      case '/proxyMode':
        return { code: 200, type: 'text/plain', headers: { 'X-Sluice-Reason': reason }, body: dataplane }
      default:
        return NOT_FOUND
    }
  }
}
