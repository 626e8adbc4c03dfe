/**
 * What is wrong with a manifest: by the JSON schemas of Kubernetes' own API, which the package kubernetes-models has compiled
 * to validators, and by what no schema says. Pure.
 */

import { validate as daemonSet } from 'kubernetes-models/_schemas/IoK8sApiAppsV1DaemonSet'
import { validate as serviceAccount } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ServiceAccount'
import { validate as clusterRole } from 'kubernetes-models/_schemas/IoK8sApiRbacV1ClusterRole'
import { validate as clusterRoleBinding } from 'kubernetes-models/_schemas/IoK8sApiRbacV1ClusterRoleBinding'

/** As ajv compiles them: what is wrong is left at the function. */
interface Validator {
  (data: unknown): boolean
  readonly errors?: readonly SchemaError[] | null
}

interface SchemaError {
  readonly instancePath: string
  readonly keyword: string
  readonly params: Readonly<Record<string, unknown>>
}

const VALIDATORS: Readonly<Record<string, Validator>> = {
  'apps/v1 DaemonSet': daemonSet,
  'v1 ServiceAccount': serviceAccount,
  'rbac.authorization.k8s.io/v1 ClusterRole': clusterRole,
  'rbac.authorization.k8s.io/v1 ClusterRoleBinding': clusterRoleBinding,
}

type Fields = Readonly<Record<string, unknown>>

/** One line each, beginning with where: `/spec/template: …`. None: the API server takes it. */
export function problemsOf(manifest: unknown): string[] {
  const { apiVersion, kind } = fieldsOf(manifest)
  const validator = VALIDATORS[`${String(apiVersion)} ${String(kind)}`]
  if (validator === undefined) return [`/: ${String(apiVersion)} ${String(kind)} is not known here`]
  const seen = new Map<object, Set<string>>()
  validator(watched(manifest, seen))
  const bySchema = (validator.errors ?? []).map(
    ({ instancePath, keyword, params }) => `${instancePath || '/'}: ${keyword} ${JSON.stringify(params)}`,
  )
  return [...bySchema, ...unknownFields(manifest, seen, ''), ...inconsistencies(manifest)]
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function fieldsOf(value: unknown): Fields {
  return isObject(value) ? (value as Fields) : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/**
 * The schemas allow fields that they do not know; the API server's strict validation, which kubectl asks for, does not. A
 * validator reads each field that it knows: what it has not read is unknown.
 */
function watched(value: unknown, seen: Map<object, Set<string>>): unknown {
  if (!isObject(value)) return value
  const read = new Set<string>()
  seen.set(value, read)
  return new Proxy(value, {
    get(target, key) {
      if (typeof key === 'string') read.add(key)
      return watched(Reflect.get(target, key), seen)
    },
  })
}

function unknownFields(
  value: unknown,
  seen: ReadonlyMap<object, ReadonlySet<string>>,
  where: string,
): string[] {
  if (!isObject(value)) return []
  const read = seen.get(value)
  return Object.entries(value).flatMap(([name, member]) => {
    const path = `${where}/${name}`
    return read?.has(name) === true ? unknownFields(member, seen, path) : [`${path}: unknown field`]
  })
}

/** What the API server, or the kubelet, looks at beyond the schema. */
function inconsistencies(manifest: unknown): string[] {
  const spec = fieldsOf(fieldsOf(manifest)['spec'])
  const template = fieldsOf(spec['template'])
  const pod = fieldsOf(template['spec'])
  return [
    ...unselected(fieldsOf(spec['selector']), fieldsOf(fieldsOf(template['metadata'])['labels'])),
    ...repeated([...listOf(pod['initContainers']), ...listOf(pod['containers'])], 'name', 'containers'),
    ...repeated(listOf(pod['volumes']), 'name', 'volumes'),
    ...['initContainers', 'containers'].flatMap((kind) =>
      listOf(pod[kind]).flatMap((container, index) =>
        containerProblems(fieldsOf(container), pod, `/spec/template/spec/${kind}/${index}`),
      ),
    ),
  ]
}

function unselected(selector: Fields, labels: Fields): string[] {
  return Object.entries(fieldsOf(selector['matchLabels'])).flatMap(([name, value]) =>
    labels[name] === value ? [] : [`/spec/selector: the pods have no label ${name} that is ${String(value)}`],
  )
}

function repeated(items: readonly unknown[], field: string, what: string): string[] {
  const values = items.map((item) => fieldsOf(item)[field])
  return values
    .filter((value, index) => values.indexOf(value) !== index)
    .map((value) => `/spec/template/spec/${what}: ${String(value)} is there twice`)
}

function containerProblems(container: Fields, pod: Fields, where: string): string[] {
  const volumes = listOf(pod['volumes']).map((volume) => fieldsOf(volume)['name'])
  const ports = listOf(container['ports']).map((port) => fieldsOf(port)['name'])
  const mounts = listOf(container['volumeMounts']).map(fieldsOf)
  const problems = mounts
    .filter(({ name }) => !volumes.includes(name))
    .map(({ name }) => `${where}/volumeMounts: there is no volume ${String(name)}`)
  for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe']) {
    const port = fieldsOf(fieldsOf(container[probe])['httpGet'])['port']
    if (typeof port === 'string' && !ports.includes(port)) {
      problems.push(`${where}/${probe}: there is no port ${port}`)
    }
  }
  const { privileged, allowPrivilegeEscalation } = fieldsOf(container['securityContext'])
  if (privileged === true && allowPrivilegeEscalation === false) {
    problems.push(`${where}/securityContext: who is privileged cannot be without allowPrivilegeEscalation`)
  }
  return [...problems, ...repeated(mounts, 'mountPath', `${where.split('/').at(-2)}/volumeMounts`)]
}
