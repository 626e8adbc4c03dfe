/** Section 14.11: health-check node ports, and the health of the proxy. */

import type { Row, Section, ServicePlan, Setup, StoryRow } from '../types.ts'

const p1 = { on: 'p1' } as const
const p3 = { on: 'p3' } as const
const p5 = { on: 'p5' } as const

/** A load balancer with policy Local, and the health-check node port that goes with it. */
const LOCAL: ServicePlan = {
  ports: [{ nodePort: 0 }],
  loadBalancer: [{ at: 'lb1' }],
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: 4,
}

const SETUPS: Readonly<Record<string, Setup>> = {
  'health-none': { services: [{ ...LOCAL, endpoints: [p5, { on: 'p1', ready: false, serving: true }] }] },
  'health-some': { services: [{ ...LOCAL, endpoints: [p1, p3, p5] }] },
  'health-two-ports': {
    services: [
      {
        ...LOCAL,
        ports: [
          { name: 'one', nodePort: 0 },
          { name: 'two', port: 81, targetPort: 9090, nodePort: 1 },
        ],
        endpoints: [p1, p5],
      },
    ],
  },
  'health-removed': { services: [{ ...LOCAL, endpoints: [p1] }], changes: { removed: [] } },
  'health-reached': { services: [{ ...LOCAL, endpoints: [p1] }], changes: { removed: [] } },
}

function row(id: string, says: string, setup?: string): StoryRow {
  return {
    id,
    kind: 'server',
    says,
    story: 'asks the servers of the daemon',
    ...(setup === undefined ? {} : { setup }),
  }
}

const ROWS: readonly Row[] = [
  row('HC-01', 'no local ready endpoint: 503, weight 0, on any path', 'health-none'),
  row('HC-02', 'n of them, and a healthy proxy: 200, weight n', 'health-some'),
  row('HC-03', 'some, but the proxy is late: 503, serviceProxyHealthy false'),
  row('HC-04', 'one pod address on two ports counts once', 'health-two-ports'),
  row('HC-05', 'the service is removed: refused', 'health-removed'),
  row('HC-06', '/healthz without a pending update: 200'),
  row('HC-07', '/healthz and /livez with an update pending too long: 503; after it 200'),
  row('HC-08', 'the node is tainted ToBeDeletedByClusterAutoscaler: /healthz 503, /livez 200'),
  row('HC-09', 'the node is being deleted: /healthz 503, /livez 200'),
  row('HC-10', 'the taint is removed: /healthz 200'),
  row('HC-11', 'the port is reached from outside; not after the service is deleted', 'health-reached'),
  row('HC-12', '10256/healthz has lastUpdated, 10249/proxyMode answers'),
]

export const HEALTH: Section = { section: '14.11', title: 'Health', setups: SETUPS, rows: ROWS }
