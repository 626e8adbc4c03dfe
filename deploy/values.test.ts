/** The schema of the chart's values: it takes what the chart has, and refuses what people write by mistake. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PROXY_MODES } from '../control/config/proxy-mode.ts'
import { SOCKET_MODES } from '../control/model/pod-sockets.ts'
import { defaultValues, merged } from '../tools/gen/deploy.ts'
import type { Value } from '../tools/gen/template.ts'
import { OVERLAYS } from './manifests.ts'

/** The part of JSON Schema (draft 7) that it keeps to; Helm has the rest. */
interface Schema {
  readonly $schema?: string
  readonly title?: string
  readonly definitions?: Readonly<Record<string, Schema>>
  readonly $ref?: string
  readonly type?: 'object' | 'array' | 'string' | 'boolean' | 'integer'
  readonly enum?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: false | Schema
  readonly items?: Schema
  readonly pattern?: string
  readonly minLength?: number
  readonly minimum?: number
  readonly maximum?: number
}

const KEYWORDS =
  '$schema title definitions $ref type enum properties additionalProperties items pattern minLength minimum maximum'.split(
    ' ',
  )
const ROOT = JSON.parse(
  readFileSync(join(import.meta.dirname, 'helm/sluice/values.schema.json'), 'utf8'),
) as Schema

function typeOf(value: Value): string {
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : value === null ? 'null' : typeof value
}

/** Where a value is not as the schema says, each place once. */
function faultsOf(value: Value, schema: Schema, where: string): string[] {
  for (const keyword of Object.keys(schema)) assert.ok(KEYWORDS.includes(keyword), `${where}: ${keyword}`)
  if (schema.$ref !== undefined) {
    const target = ROOT.definitions?.[schema.$ref.replace('#/definitions/', '')]
    return faultsOf(value, target ?? assert.fail(schema.$ref), where)
  }
  if (schema.type !== undefined && typeOf(value) !== schema.type) return [where]
  if (schema.enum !== undefined && !schema.enum.some((word) => word === value)) return [where]
  if (typeof value === 'string') return isText(value, schema) ? [] : [where]
  if (typeof value === 'number') {
    const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = schema
    return value < minimum || value > maximum ? [where] : []
  }
  if (Array.isArray(value)) {
    return value.flatMap((item: Value, i) => faultsOf(item, schema.items ?? {}, `${where}/${i}`))
  }
  return Object.entries(Object(value) as Readonly<Record<string, Value>>).flatMap(([name, member]) => {
    const own = schema.properties?.[name] ?? schema.additionalProperties ?? {}
    return own === false ? [`${where}/${name}`] : faultsOf(member, own, `${where}/${name}`)
  })
}

function isText(value: string, { pattern = '', minLength = 0 }: Schema): boolean {
  return new RegExp(pattern, 'u').test(value) && value.length >= minLength
}

const faults = (values: Value): string[] => faultsOf(merged(defaultValues(), values), ROOT, '')

const TAKEN: readonly Value[] = [
  {},
  ...Object.values(OVERLAYS),
  { apiServer: { host: '2001:db8::1', port: 443 } },
  { apiServer: { host: 'api.example.org' } },
  { metricsAddress: '0.0.0.0' },
  { metricsAddress: '[::]' },
  { extraArgs: ['--cluster-cidr=10.244.0.0/16', '--v=3'] },
  { resources: { limits: { memory: '1.5Gi', cpu: '2' } } },
  { global: { anything: 1 } },
]

const REFUSED: readonly (readonly [where: string, values: Value])[] = [
  ['/proxymode', { proxymode: 'bpf' }],
  ['/proxyMode', { proxyMode: 'ebpf' }],
  ['/proxyMode', { proxyMode: true }],
  ['/image/repo', { image: { repo: 'sluice' } }],
  ['/image/repository', { image: { repository: '' } }],
  ['/image/tag', { image: { tag: 1 } }],
  ['/image/pullPolicy', { image: { pullPolicy: 'always' } }],
  ['/image', { image: 'sluice:0.1.0' }],
  ['/oldKernels', { oldKernels: 'true' }],
  ['/seccompProfile', { seccompProfile: 'unconfined' }],
  ['/apiServer/host', { apiServer: { host: 'https://192.0.2.10:6443' } }],
  ['/apiServer/port', { apiServer: { port: '6443' } }],
  ['/apiServer/port', { apiServer: { port: 65_536 } }],
  ['/kubeProxyConfigMap', { kubeProxyConfigMap: 'kube-system/kube-proxy' }],
  ['/socketLoadBalancing', { socketLoadBalancing: 'pods' }],
  ['/podSockets', { podSockets: 1 }],
  ['/cgroupRoot', { cgroupRoot: 'sys/fs/cgroup' }],
  ['/metricsAddress', { metricsAddress: '0.0.0.0:10249' }],
  ['/metricsAddress', { metricsAddress: '::' }],
  ['/nodeSelector/a', { nodeSelector: { a: true } }],
  ['/extraArgs/0', { extraArgs: ['v=3'] }],
  ['/extraArgs', { extraArgs: '--v=3' }],
  ['/resources/request', { resources: { request: {} } }],
  ['/resources/limits/memory', { resources: { limits: { memory: '400MB' } } }],
  ['/resources/limits/cpu', { resources: { limits: { cpu: 1 } } }],
]

for (const values of TAKEN) {
  test(`taken: ${JSON.stringify(values)}`, () => assert.deepEqual(faults(values), []))
}
for (const [where, values] of REFUSED) {
  test(`refused: ${JSON.stringify(values)}`, () => assert.deepEqual(faults(values), [where]))
}

test('each object of the values has a schema that refuses what is not in it, by the words of the program', () => {
  const { properties = {} } = ROOT
  assert.ok(properties['proxyMode']?.enum?.every((mode) => (PROXY_MODES as readonly string[]).includes(mode)))
  assert.deepEqual(properties['socketLoadBalancing']?.enum?.toSorted(), [...SOCKET_MODES].sort())
  for (const [name, { type, additionalProperties }] of Object.entries(properties)) {
    assert.ok(type !== 'object' || name === 'global' || additionalProperties !== undefined, name)
  }
})
