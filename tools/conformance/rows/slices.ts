/** Section 14.13: from slices to endpoints. */

import type { ModelRow, Row, Section } from '../types.ts'

/** `ns1/svc1` with these ports, TCP by number, or UDP. */
function service(
  ...ports: readonly { readonly name: string; readonly port: number; readonly udp?: true }[]
): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'ns1', name: 'svc1' },
    spec: {
      clusterIP: '172.30.1.1',
      clusterIPs: ['172.30.1.1', 'fd00:30::1'],
      internalTrafficPolicy: 'Local',
      type: 'NodePort',
      ports: ports.map(({ name, port, udp }) => ({
        name,
        port,
        nodePort: 30_000 + port,
        protocol: udp ? 'UDP' : 'TCP',
      })),
    },
  }
}

interface SlicePlan {
  readonly name?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly addressType?: 'IPv4' | 'IPv6' | 'FQDN'
  readonly ports: readonly object[]
  readonly endpoints: readonly object[]
}

function slice({
  name = 'svc1-a',
  labels = { 'kubernetes.io/service-name': 'svc1' },
  addressType = 'IPv4',
  ports,
  endpoints,
}: SlicePlan): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { namespace: 'ns1', name, labels },
    addressType,
    ports,
    endpoints,
  }
}

const P11 = { name: 'p11', port: 11 } as const
const P12 = { name: 'p12', port: 12 } as const
const ENDPOINT = { addresses: ['10.1.1.1'] } as const
const HERE = { addresses: ['10.1.1.1'], nodeName: 'n1' } as const
const EMPTY = { cluster: [], local: [] } as const

function row(id: string, says: string, ...steps: ModelRow['steps']): ModelRow {
  return { id, kind: 'model', says, steps }
}

const ROWS: readonly Row[] = [
  row('EPS-01', 'two slices with different ports: merged', {
    objects: [
      service(P11, P12),
      slice({ name: 'svc1-a', ports: [P11], endpoints: [ENDPOINT] }),
      slice({ name: 'svc1-b', ports: [P12], endpoints: [{ addresses: ['10.1.1.2'] }] }),
    ],
    lists: {
      'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'] },
      'ns1/svc1:p12/TCP': { cluster: ['10.1.1.2:12'] },
      'ns1/svc1:p11/TCP v6': EMPTY,
      'ns1/svc1:p12/TCP v6': EMPTY,
    },
  }),
  row(
    'EPS-02',
    'one address in two slices, terminating in one: one endpoint, which does not terminate',
    ...[['svc1-a', 'svc1-b'] as const, ['svc1-b', 'svc1-a'] as const].map(([ready, terminating]) => ({
      objects: [
        service(P11),
        slice({ name: ready, ports: [P11], endpoints: [ENDPOINT] }),
        slice({
          name: terminating,
          ports: [P11],
          endpoints: [{ ...ENDPOINT, conditions: { ready: false, serving: true, terminating: true } }],
        }),
        slice({ name: 'svc1-c', ports: [P11], endpoints: [{ addresses: ['10.1.1.9'] }] }),
      ],
      lists: {
        'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11', '10.1.1.9:11'] },
        'ns1/svc1:p11/TCP v6': EMPTY,
      },
    })),
  ),
  row(
    'EPS-03',
    'a UDP port is renamed: the old key is gone, the new one is there',
    {
      objects: [
        service({ name: 'p11', port: 11, udp: true }),
        slice({ ports: [{ ...P11, protocol: 'UDP' }], endpoints: [ENDPOINT] }),
      ],
      lists: { 'ns1/svc1:p11/UDP': { cluster: ['10.1.1.1:11'] }, 'ns1/svc1:p11/UDP v6': EMPTY },
    },
    {
      objects: [
        service({ name: 'p11-2', port: 11, udp: true }),
        slice({ ports: [{ name: 'p11-2', port: 11, protocol: 'UDP' }], endpoints: [ENDPOINT] }),
      ],
      lists: { 'ns1/svc1:p11-2/UDP': { cluster: ['10.1.1.1:11'] }, 'ns1/svc1:p11-2/UDP v6': EMPTY },
      changed: ['ns1/svc1'],
    },
  ),
  row(
    'EPS-04',
    'a port is renumbered',
    {
      objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })],
      lists: { 'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'] }, 'ns1/svc1:p11/TCP v6': EMPTY },
    },
    {
      objects: [service(P11), slice({ ports: [{ name: 'p11', port: 22 }], endpoints: [ENDPOINT] })],
      lists: { 'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:22'] }, 'ns1/svc1:p11/TCP v6': EMPTY },
      changed: ['ns1/svc1'],
    },
  ),
  row(
    'EPS-05',
    'nodeName absent: not local; this node: local',
    {
      objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })],
      lists: {
        'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'], local: [] },
        'ns1/svc1:p11/TCP v6': EMPTY,
      },
    },
    {
      objects: [service(P11), slice({ ports: [P11], endpoints: [HERE] })],
      lists: {
        'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'], local: ['10.1.1.1:11'] },
        'ns1/svc1:p11/TCP v6': EMPTY,
      },
    },
  ),
  row('EPS-06', 'a port without number, or 0, is skipped; the others of the slice are not', {
    objects: [
      service(P11, P12, { name: 'p13', port: 13 }),
      slice({
        ports: [{ name: 'p11' }, { name: 'p12', port: 0 }, { name: 'p13', port: 13 }],
        endpoints: [ENDPOINT],
      }),
    ],
    lists: {
      'ns1/svc1:p11/TCP': EMPTY,
      'ns1/svc1:p12/TCP': EMPTY,
      'ns1/svc1:p13/TCP': { cluster: ['10.1.1.1:13'] },
      'ns1/svc1:p11/TCP v6': EMPTY,
      'ns1/svc1:p12/TCP v6': EMPTY,
      'ns1/svc1:p13/TCP v6': EMPTY,
    },
  }),
  row(
    'EPS-07',
    'slices of another family or of host names say nothing to this one',
    {
      objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })],
      lists: { 'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'] }, 'ns1/svc1:p11/TCP v6': EMPTY },
    },
    {
      objects: [
        service(P11),
        slice({ ports: [P11], endpoints: [ENDPOINT] }),
        slice({
          name: 'svc1-v6',
          addressType: 'IPv6',
          ports: [P11],
          endpoints: [{ addresses: ['fd00::1'] }],
        }),
        slice({
          name: 'svc1-fqdn',
          addressType: 'FQDN',
          ports: [P11],
          endpoints: [{ addresses: ['a.example'] }],
        }),
      ],
      lists: {
        'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'] },
        'ns1/svc1:p11/TCP v6': { cluster: ['[fd00::1]:11'] },
      },
    },
  ),
  row(
    'EPS-08',
    'the same slice once more: no sync',
    { objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })] },
    { objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })], changed: [] },
  ),
  row(
    'EPS-09',
    'a slice of a service that is not known is deleted: no sync',
    {
      objects: [
        service(P11),
        slice({ ports: [P11], endpoints: [ENDPOINT] }),
        slice({
          name: 'unknown',
          labels: { 'kubernetes.io/service-name': 'unknown' },
          ports: [P11],
          endpoints: [ENDPOINT],
        }),
      ],
    },
    { objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })], changed: [] },
  ),
  row(
    'EPS-10',
    'a slice without the label of its service: ignored',
    { objects: [service(P11), slice({ ports: [P11], endpoints: [ENDPOINT] })] },
    {
      objects: [
        service(P11),
        slice({ ports: [P11], endpoints: [ENDPOINT] }),
        slice({ name: 'svc1-b', labels: {}, ports: [P11], endpoints: [{ addresses: ['10.1.1.2'] }] }),
      ],
      lists: { 'ns1/svc1:p11/TCP': { cluster: ['10.1.1.1:11'] }, 'ns1/svc1:p11/TCP v6': EMPTY },
      changed: [],
    },
  ),
  row('EPS-11', 'sorted by address and port as text', {
    objects: [
      service(P11),
      slice({
        ports: [P11],
        endpoints: [{ addresses: ['10.1.1.9'] }, { addresses: ['10.1.1.10'] }, { addresses: ['10.1.1.1'] }],
      }),
    ],
    lists: {
      'ns1/svc1:p11/TCP': { cluster: ['10.1.1.10:11', '10.1.1.1:11', '10.1.1.9:11'] },
      'ns1/svc1:p11/TCP v6': EMPTY,
    },
  }),
  row(
    'EPS-12',
    'no change, a named port, local: one local endpoint before and after',
    {
      objects: [service(P11), slice({ ports: [P11], endpoints: [HERE] })],
      lists: { 'ns1/svc1:p11/TCP': { local: ['10.1.1.1:11'] }, 'ns1/svc1:p11/TCP v6': EMPTY },
    },
    {
      objects: [service(P11), slice({ ports: [P11], endpoints: [HERE] })],
      lists: { 'ns1/svc1:p11/TCP': { local: ['10.1.1.1:11'] }, 'ns1/svc1:p11/TCP v6': EMPTY },
      changed: [],
    },
  ),
]

export const SLICES: Section = { section: '14.13', title: 'Slices to endpoints', setups: {}, rows: ROWS }
