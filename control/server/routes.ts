/** What the two servers of the daemon answer, by path. */

import { healthz, livez, type Now, type ProxyState, readyz } from './health.ts'
import type { Answer, Responder } from './listener.ts'

/** Neither of kube-proxy's modes: tools that ask for one of them are to know that it is not there. */
export const PROXY_MODE = 'bpf'

const NOT_FOUND: Answer = { code: 404, type: 'text/plain', body: '404 page not found\n' }

/** The server for kubelets and load balancers. */
export function healthRoutes(state: () => ProxyState, now: () => Now): Responder {
  return (path) => {
    switch (path) {
      case '/healthz':
        return healthz(state(), now())
      case '/livez':
        return livez(state(), now())
      case '/readyz':
        return readyz(state(), now())
      default:
        return NOT_FOUND
    }
  }
}

/** The server for whoever looks after the node. Its `/healthz` says that it answers, and no more, as kube-proxy's. */
export function metricsRoutes(): Responder {
  return (path) => {
    switch (path) {
      case '/healthz':
        return { code: 200, type: 'text/plain', body: 'ok' }
      case '/proxyMode':
        return { code: 200, type: 'text/plain', body: PROXY_MODE }
      default:
        return NOT_FOUND
    }
  }
}
