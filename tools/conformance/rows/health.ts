/** Section 14.11: health-check node ports, and the health of the proxy. */

import type { Row, Section, StoryRow } from '../types.ts'

function row(id: string, says: string): StoryRow {
  return { id, kind: 'server', says, story: 'asks the servers of the daemon' }
}

const ROWS: readonly Row[] = [
  row('HC-01', 'health-check node port without a local ready endpoint: 503, weight 0, on any path'),
  row('HC-02', 'with n of them, and a healthy proxy: 200, weight n'),
  row('HC-03', 'with some, but the proxy is late: 503, serviceProxyHealthy false'),
  row('HC-04', 'one pod address on two ports counts once'),
  row('HC-05', 'the service is removed: refused'),
  row('HC-06', '/healthz without a pending update: 200'),
  row('HC-07', '/healthz and /livez with an update pending too long: 503; after it 200'),
  row('HC-08', 'the node is tainted ToBeDeletedByClusterAutoscaler: /healthz 503, /livez 200'),
  row('HC-09', 'the node is being deleted: /healthz 503, /livez 200'),
  row('HC-10', 'the taint is removed: /healthz 200'),
  row('HC-11', 'the health-check node port is reachable from outside; not after the service is deleted'),
  row('HC-12', '10256/healthz has lastUpdated, 10249/proxyMode answers'),
]

export const HEALTH: Section = { section: '14.11', title: 'Health', setups: {}, rows: ROWS }
