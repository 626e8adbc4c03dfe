/**
 * Section 14.12: what happens to flows when endpoints change. kube-proxy deletes entries of netfilter's conntrack; here
 * a flow is looked at with each of its packets. The rows are told by clients that go on from one source port.
 */

import type { Row, Section, Setup, StoryRow } from '../types.ts'

const p1 = { on: 'p1' } as const
const p3 = { on: 'p3' } as const
const p5 = { on: 'p5' } as const

const UDP_PORT = { ports: [{ port: 53, protocol: 'UDP', nodePort: 0 }] } as const
const TCP_PORT = { ports: [{ nodePort: 0 }] } as const
const EVERY_WAY = {
  ...UDP_PORT,
  loadBalancer: [{ at: 'lb1' }],
  externalIPs: ['external-ip'],
} as const
const LOCAL = { ...UDP_PORT, internalTrafficPolicy: 'Local' } as const
const TWO_PORTS = {
  ports: [
    { name: 'one', port: 53, protocol: 'UDP' },
    { name: 'other', port: 54, protocol: 'UDP' },
  ],
} as const

/** Each row that changes it has one of its own. */
const UDP_REMOVED: Setup = {
  services: [{ ...EVERY_WAY, endpoints: [p1] }],
  changes: { replaced: [{ ...EVERY_WAY, endpoints: [p5] }] },
}

const SETUPS: Readonly<Record<string, Setup>> = {
  'udp-kept': {
    services: [{ ...UDP_PORT, endpoints: [p1, p5] }],
    changes: { 'another one': [{ ...UDP_PORT, endpoints: [p1, p3, p5] }] },
  },
  'udp-removed': UDP_REMOVED,
  'udp-removed-every-way': UDP_REMOVED,
  'udp-removed-node-port': UDP_REMOVED,
  'udp-removed-cluster-ip': UDP_REMOVED,
  'udp-removed-host': UDP_REMOVED,
  'udp-before': {
    services: [{ ...UDP_PORT, endpoints: [] }],
    changes: { 'endpoints exist': [{ ...UDP_PORT, endpoints: [p1] }] },
  },
  'udp-other-port': {
    services: [{ ...TWO_PORTS, endpoints: [p1, p5] }],
    changes: {
      'one of them': [
        {
          ...TWO_PORTS,
          endpoints: [
            { on: 'p1', only: 'other' },
            { on: 'p5', only: 'other' },
          ],
        },
      ],
    },
  },
  'tcp-removed': {
    services: [{ ...TCP_PORT, endpoints: [p1] }],
    changes: { replaced: [{ ...TCP_PORT, endpoints: [p5] }] },
  },
  'udp-nobody': {
    services: [{ ...UDP_PORT, endpoints: [p1] }],
    changes: {
      nobody: [{ ...UDP_PORT, endpoints: [{ ...p1, ready: false, serving: false }] }],
      another: [{ ...UDP_PORT, endpoints: [p5] }],
    },
  },
  'udp-unready': {
    services: [{ ...UDP_PORT, endpoints: [p1] }],
    changes: {
      unready: [{ ...UDP_PORT, endpoints: [{ ...p1, ready: false, serving: true }, p5] }],
      terminating: [
        { ...UDP_PORT, endpoints: [{ ...p1, ready: false, serving: true, terminating: true }, p5] },
      ],
    },
  },
  'udp-service-changed': {
    services: [{ ...UDP_PORT, endpoints: [p1, p5] }],
    changes: { changed: [{ ...UDP_PORT, labels: { changed: 'yes' }, endpoints: [p1, p5] }] },
  },
  'udp-local': {
    services: [{ ...LOCAL, endpoints: [p1, p5] }],
    changes: {
      'local one gone': [{ ...LOCAL, endpoints: [p5] }],
      'local one back': [{ ...LOCAL, endpoints: [p3, p5] }],
    },
  },
  'udp-init': {
    services: [{ ...UDP_PORT, endpoints: [{ ...p1, ready: false, serving: false }] }],
    changes: { ready: [{ ...UDP_PORT, endpoints: [p1] }] },
  },
  'udp-load-balancer': {
    services: [{ ...EVERY_WAY, endpoints: [p1] }],
    changes: {
      'same node': [{ ...EVERY_WAY, endpoints: [p3] }],
      'other node': [{ ...EVERY_WAY, endpoints: [p5] }],
    },
  },
  'close-wait': { services: [{ ports: [{ targetPort: 8099 }], endpoints: [p1] }] },
  invalid: { services: [{ ...TCP_PORT, endpoints: [p5] }] },
}

function row(id: string, setup: string, says: string): StoryRow {
  return { id, kind: 'packet', says, story: 'a flow that goes on while endpoints change', setup }
}

const ROWS: readonly Row[] = [
  row('CT-01', 'udp-kept', 'UDP flow to an endpoint that serves: kept'),
  row('CT-02', 'udp-removed', 'UDP flow to an endpoint that is removed: goes to another'),
  row('CT-03', 'udp-before', 'UDP packets from before there were endpoints do not keep the client away'),
  row('CT-04', 'udp-removed-every-way', 'the same by load-balancer address, external address and node port'),
  row('CT-05', 'udp-other-port', 'UDP flow to another port of the service: kept'),
  row('CT-06', 'tcp-removed', 'TCP connection to an endpoint that is removed: goes on'),
  row('CT-07', 'udp-nobody', 'nobody serves: UDP flows are kept until somebody does'),
  row('CT-08', 'udp-unready', 'the endpoint is not ready, or terminates, but serves: kept'),
  row('CT-09', 'udp-service-changed', 'a change of the service alone: kept'),
  row(
    'CT-10',
    'udp-removed-node-port',
    'UDP, node port of the other node, one source port: reaches the second pod',
  ),
  row('CT-11', 'udp-removed-cluster-ip', 'UDP, ClusterIP: reaches the second pod'),
  row('CT-12', 'udp-local', 'UDP, internal policy Local: the new local pod is reached'),
  row('CT-13', 'udp-removed-host', 'UDP, client on the host network: reaches the second pod'),
  row('CT-14', 'udp-init', 'UDP, an endpoint that is not ready at first: reached once it is'),
  row(
    'CT-15',
    'udp-load-balancer',
    'UDP, load-balancer address: second pod on the same and on the other node',
  ),
  row('CT-16', 'invalid', 'a segment outside of the window does not reach the client under another address'),
  {
    id: 'CT-17',
    kind: 'rules',
    setup: 'close-wait',
    says: 'conntrack shows a CLOSE_WAIT timeout of about 3600 s',
    why: "netfilter's own timeout for entries that carry a DNAT; flows are kept in the maps here, by their own timeouts",
  },
  {
    id: 'CT-18',
    kind: 'rules',
    says: 'be_liberal: the INVALID rule of KUBE-FORWARD is there or not',
    why: 'an iptables rule; nothing is dropped for being INVALID here',
  },
]

export const CONNTRACK: Section = { section: '14.12', title: 'Conntrack', setups: SETUPS, rows: ROWS }
