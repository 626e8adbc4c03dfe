/**
 * From a parsed manifest to the objects that are read: Service, EndpointSlice, Node, ServiceCIDR, Pod, Namespace,
 * and lists of them.
 * Pure. What is in an object is read by `../objects.ts`.
 */

import type { Service } from '../../model/types.ts'
import { FieldError, Fields, type Path, pathText } from '../fields.ts'
import {
  isHeadlessSlice,
  readNamespace,
  readNode,
  readPod,
  readService,
  readServiceCIDR,
  readSlice,
} from '../objects.ts'
import { Sharing } from '../sharing.ts'
import type { Change, Kind } from '../source.ts'

/** An object with its kind and key. */
export type FoundObject = Extract<Change, { readonly object: unknown }> & {
  readonly object: object
  readonly path: Path
}

/** Something that could not be used, and the way to it from the root of the document. */
export interface ObjectProblem {
  readonly object: string
  readonly field: string
  readonly message: string
  readonly path: Path
}

/** What a document holds. */
export interface Contents {
  readonly found: readonly FoundObject[]
  /** Objects that are there, but of a shape that cannot be read. */
  readonly refused: readonly { readonly kind: Kind; readonly key: string }[]
  readonly problems: readonly ObjectProblem[]
  /** Objects of kinds that are not read, as `Deployment default/web`. */
  readonly ignored: readonly string[]
}

interface Findings {
  readonly sharing: Sharing
  readonly found: FoundObject[]
  readonly refused: { kind: Kind; key: string }[]
  readonly problems: ObjectProblem[]
  readonly ignored: string[]
}

/** What was read of an object before its fields. */
interface Identity {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

/** Reads all objects of one document. Never throws: what cannot be read is among the problems. */
export function readObjects(value: unknown): Contents {
  const findings: Findings = { sharing: new Sharing(), found: [], refused: [], problems: [], ignored: [] }
  // A document with nothing but comments.
  if (value !== undefined && value !== null) readAny(value, [], undefined, findings)
  const { found, refused, problems, ignored } = findings
  return { found, refused, problems, ignored }
}

/** `itemOf` is the typed list that the object is an item of: items of a ServiceList need not say that they are Services. */
function readAny(value: unknown, path: Path, itemOf: Identity | undefined, findings: Findings): void {
  const identity = tryTo(() => readIdentity(new Fields(value, path), itemOf), 'object', path, findings)
  if (identity === undefined) return
  const label = labelOf(identity)
  if (identity.kind.endsWith('List') && isList(value)) {
    const inner =
      identity.kind === 'List' ? undefined : { ...identity, kind: identity.kind.slice(0, -'List'.length) }
    value.items.forEach((item, i) => {
      readAny(item, [...path, 'items', i], inner, findings)
    })
    return
  }
  const read = READERS[`${identity.apiVersion} ${identity.kind}`]
  if (read === undefined) {
    findings.ignored.push(label)
    return
  }
  const key =
    read.kind === 'Node' || read.kind === 'Namespace'
      ? identity.name
      : `${identity.namespace}/${identity.name}`
  if (identity.name === '') {
    const message = 'has no value, but is required'
    findings.problems.push({
      object: label,
      field: 'metadata.name',
      message,
      path: [...path, 'metadata', 'name'],
    })
    return
  }
  const change = tryTo(
    () => read.change(new Fields(value, path), identity, key, findings.sharing),
    label,
    path,
    findings,
  )
  if (change === undefined) {
    findings.refused.push({ kind: read.kind, key })
  } else if (change !== 'ignored') {
    findings.found.push({ ...change, path })
    if (change.kind === 'Service' && needsClusterIP(change.object)) {
      const message = 'has no value, and a folder allocates none: give the service an address, or None'
      findings.problems.push({ object: label, field: 'spec.clusterIP', message, path: [...path, 'spec'] })
    }
  }
}

function needsClusterIP({ type, clusterIPs }: Service): boolean {
  return type !== 'ExternalName' && clusterIPs.every((address) => address === '')
}

function isList(value: unknown): value is { readonly items: readonly unknown[] } {
  return typeof value === 'object' && value !== null && 'items' in value && Array.isArray(value.items)
}

/** Whether objects of a kind have no namespace. */
function isClusterScoped(kind: string): boolean {
  return kind === 'Node' || kind === 'Namespace' || kind === 'ServiceCIDR'
}

function labelOf({ kind, namespace, name }: Identity): string {
  if (isClusterScoped(kind)) return `${kind} ${name}`
  return name === '' ? `${kind} without a name` : `${kind} ${namespace}/${name}`
}

function readIdentity(fields: Fields, itemOf: Identity | undefined): Identity {
  const metadata = fields.child('metadata')
  return {
    apiVersion: itemOf && !fields.has('apiVersion') ? itemOf.apiVersion : fields.requiredText('apiVersion'),
    kind: itemOf && !fields.has('kind') ? itemOf.kind : fields.requiredText('kind'),
    namespace: metadata.text('namespace', 'default'),
    name: metadata.text('name', ''),
  }
}

/** The result, or undefined and a problem if a field is not what it must be. */
function tryTo<T>(read: () => T, object: string, root: Path, findings: Findings): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof FieldError)) throw error
    const field = pathText(error.path.slice(root.length))
    findings.problems.push({ object, field, message: error.message, path: error.path })
    return undefined
  }
}

type FoundChange = Change & { readonly object: object }

interface Reader {
  readonly kind: Kind
  /** Throws a FieldError. */
  change(fields: Fields, identity: Identity, key: string, sharing: Sharing): FoundChange | 'ignored'
}

const READERS: Readonly<Record<string, Reader>> = {
  'v1 Service': {
    kind: 'Service',
    change: (fields, identity, key, sharing) => ({
      kind: 'Service',
      key,
      object: readService(fields, identity, sharing),
    }),
  },
  'discovery.k8s.io/v1 EndpointSlice': {
    kind: 'EndpointSlice',
    change: (fields, identity, key, sharing) =>
      isHeadlessSlice(fields)
        ? 'ignored'
        : { kind: 'EndpointSlice', key, object: readSlice(fields, identity, sharing) },
  },
  'v1 Node': {
    kind: 'Node',
    change: (fields, identity, key) => ({ kind: 'Node', key, object: readNode(fields, identity) }),
  },
  'v1 Pod': {
    kind: 'Pod',
    change: (fields, identity, key) => ({ kind: 'Pod', key, object: readPod(fields, identity) }),
  },
  'v1 Namespace': {
    kind: 'Namespace',
    change: (fields, identity, key) => ({ kind: 'Namespace', key, object: readNamespace(fields, identity) }),
  },
  'networking.k8s.io/v1 ServiceCIDR': {
    kind: 'ServiceCIDR',
    change: (fields, identity, key) => ({
      kind: 'ServiceCIDR',
      key,
      object: readServiceCIDR(fields, identity),
    }),
  },
}
