/**
 * The masquerade matrix: every kind of client at every kind of address, under each policy, with and without a way to
 * tell local pods, with and without `masqueradeAll`. The expectations are kube-proxy's, written down and not computed.
 */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { desiredState } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makePort, makeService, makeSlice } from './fixtures.ts'
import { type ClientAddress, DEFAULT_MODEL_SETTINGS, type ModelSettings } from './settings.ts'
import type { Choice, FrontendKind, Service, ServicePort } from './types.ts'

/** The columns of the table: who asks, what kind of address. `host` has the node's address, `loop` 127.0.0.1. */
const COLUMNS = [
  'pod ClusterIP',
  'pod NodePort',
  'pod LoadBalancer',
  'host ClusterIP',
  'host NodePort',
  'loop NodePort',
  'host LoadBalancer',
  'external ClusterIP',
  'external NodePort',
  'external LoadBalancer',
] as const

/**
 * From the id of the first column: the endpoints that may answer, `L` on this node and `R` on another, then `Y` if the
 * client is masqueraded and `n` if its address must be kept.
 */
const TABLE = [
  ['M001', 'detector', '', 'Cluster', 'LRn LRY LRY LRY LRY LRY LRY LRY LRY LRY'],
  ['M011', 'detector', '', 'eTP Local', 'LRn LRn LRn LRY LRY LRY LRY LRY Ln Ln'],
  ['M021', 'detector', '', 'iTP Local', 'Ln LRY LRY LY LRY LRY LRY LY LRY LRY'],
  ['M031', 'none', '', 'Cluster', 'LRn LRY LRY LRn LRY LRY LRY LRn LRY LRY'],
  ['M041', 'none', '', 'eTP Local', 'LRn Ln Ln LRn LRY LRY LRY LRn Ln Ln'],
  ['M051', 'none', '', 'iTP Local', 'Ln LRY LRY Ln LRY LRY LRY Ln LRY LRY'],
  ['M061', 'detector', 'all', 'Cluster', 'LRY LRY LRY LRY LRY LRY LRY LRY LRY LRY'],
  ['M071', 'detector', 'all', 'eTP Local', 'LRY LRn LRn LRY LRY LRY LRY LRY Ln Ln'],
  ['M081', 'detector', 'all', 'iTP Local', 'LY LRY LRY LY LRY LRY LRY LY LRY LRY'],
  ['M091', 'none', 'all', 'Cluster', 'LRY LRY LRY LRY LRY LRY LRY LRY LRY LRY'],
  ['M101', 'none', 'all', 'eTP Local', 'LRY Ln Ln LRY LRY LRY LRY LRY Ln Ln'],
  ['M111', 'none', 'all', 'iTP Local', 'LY LRY LRY LY LRY LRY LRY LY LRY LRY'],
] as const

const POLICIES: Readonly<Record<(typeof TABLE)[number][3], Partial<Service>>> = {
  Cluster: {},
  'eTP Local': { externalTrafficPolicy: 'Local' },
  'iTP Local': { internalTrafficPolicy: 'Local' },
}

interface Row {
  readonly id: string
  readonly client: string
  readonly kind: FrontendKind
  readonly settings: Pick<ModelSettings, 'detectLocal' | 'masqueradeAll'>
  readonly policy: keyof typeof POLICIES
  readonly endpoints: string
  readonly masqueraded: boolean
}

const ROWS: readonly Row[] = TABLE.flatMap(([first, detector, all, policy, texts]) =>
  texts.split(' ').map((text, column): Row => {
    const [client = '', kind = ''] = COLUMNS[column]?.split(' ') ?? []
    const cidrs = detector === 'detector' ? { ipv4: '10.0.0.0/8' } : {}
    return {
      id: `M${String(Number(first.slice(1)) + column).padStart(3, '0')}`,
      client,
      kind: kind as FrontendKind,
      settings: { detectLocal: { mode: 'ClusterCIDR', cidrs }, masqueradeAll: all === 'all' },
      policy,
      endpoints: text.slice(0, -1),
      masqueraded: text.endsWith('Y'),
    }
  }),
)

function portOf({ policy, settings }: Row, clientAddress: ClientAddress): ServicePort {
  const service = makeService({
    type: 'LoadBalancer',
    ports: [makePort({ nodePort: 30080 })],
    loadBalancerIngress: [{ ip: '1.2.3.4', ipMode: 'VIP' }],
    ...POLICIES[policy],
  })
  const slice = makeSlice([
    makeEndpoint('10.180.0.1', { nodeName: 'n1' }),
    makeEndpoint('10.180.1.1', { nodeName: 'n2' }),
  ])
  const node = makeNodeFacts({ settings: { ...DEFAULT_MODEL_SETTINGS, ...settings, clientAddress } })
  const [port] = desiredState(makeCluster([service], [slice]), node).desired.services.get('default/web') ?? []
  assert.ok(port)
  return port
}

/** A pod that nothing tells from other clients is one of them. */
function choiceFor({ client, kind, settings }: Row, port: ServicePort): Choice {
  const { detectLocal } = settings
  const tells = detectLocal.mode === 'ClusterCIDR' && detectLocal.cidrs.ipv4 !== undefined
  return port.choices[kind][client === 'external' || (client === 'pod' && !tells) ? 'external' : 'internal']
}

/** A process of the node has the node's address, and no masquerade could change what the backend sees. */
const isOfNode = ({ client }: Row) => client === 'host' || client === 'loop'

const titleOf = ({ id, client, kind, policy, settings }: Row) =>
  `${id}: ${client} → ${kind}, ${policy}, ${JSON.stringify(settings)}`

function endpointsOf(port: ServicePort, choice: Choice): string {
  return port[choice.list].map((index) => (port.backends[index]?.onNode ? 'L' : 'R')).join('')
}

it('the table has all 120 rows', () => {
  assert.equal(ROWS.length, 120)
  assert.deepEqual([ROWS.at(0)?.id, ROWS.at(-1)?.id], ['M001', 'M120'])
})

describe('clientAddress kube-proxy gives exactly its answers', () => {
  for (const row of ROWS) {
    it(titleOf(row), () => {
      const port = portOf(row, 'kube-proxy')
      const choice = choiceFor(row, port)
      assert.equal(endpointsOf(port, choice), row.endpoints)
      if (!isOfNode(row)) assert.equal(choice.masquerade, row.masqueraded ? 'always' : 'never')
    })
  }
})

describe('clientAddress preserve gives the same endpoints, and masquerades nobody whom kube-proxy does not', () => {
  for (const row of ROWS) {
    it(titleOf(row), () => {
      const port = portOf(row, 'preserve')
      const choice = choiceFor(row, port)
      assert.equal(endpointsOf(port, choice), row.endpoints)
      if (isOfNode(row)) return
      const isAll = row.settings.masqueradeAll && row.kind === 'ClusterIP'
      if (isAll) assert.equal(choice.masquerade, 'always')
      else if (row.masqueraded) assert.equal(choice.masquerade, 'if-needed')
      // A pod at this node is answered here, so that need never arises.
      else if (row.client !== 'pod') assert.equal(choice.masquerade, 'never')
      else assert.notEqual(choice.masquerade, 'always')
    })
  }
})
