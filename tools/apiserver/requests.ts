/** What clients asked for: how a request is understood, and the record of all of them. */

import type { Encoding } from './encoder.ts'
import { KINDS, type KindInfo, type Resource } from './kinds.ts'

export type Verb = 'get' | 'list' | 'watch' | 'streaming list'

/** A request for objects. */
export interface ApiRequest {
  readonly resource: Resource
  readonly verb: Verb
  /** Set for one namespace only. */
  readonly namespace: string | undefined
  /** Set for `get`. */
  readonly name: string | undefined
  readonly query: URLSearchParams
}

/** A request, as it was recorded. */
export interface RecordedRequest extends ApiRequest {
  /** Milliseconds of `performance.now()`. */
  readonly atMs: number
  readonly encoding: Encoding | undefined
  readonly authorization: string | undefined
}

/** Undefined for a path at which there are no objects. */
export function readRequest(url: URL): ApiRequest | undefined {
  for (const kind of Object.values(KINDS)) {
    const { resource } = kind
    const path = pathOf(url.pathname, kind)
    if (path === undefined) continue
    const { searchParams: query } = url
    const isWatch = ['1', 'true'].includes(query.get('watch') ?? '')
    const isStreaming = isWatch && query.get('sendInitialEvents') === 'true'
    const verb = isStreaming ? 'streaming list' : isWatch ? 'watch' : path.name === undefined ? 'list' : 'get'
    return { resource, verb, query, ...path }
  }
  return undefined
}

function pathOf(
  path: string,
  { base, resource, namespaced }: KindInfo,
): { readonly namespace: string | undefined; readonly name: string | undefined } | undefined {
  const inside = namespaced ? `(?:/namespaces/([^/]+))?` : '()'
  const [whole, namespace, name] = new RegExp(`^${base}${inside}/${resource}(?:/([^/]+))?$`).exec(path) ?? []
  return whole === undefined ? undefined : { namespace: namespace || undefined, name }
}

/** What the client would like best among what the server has; undefined when it accepts nothing of that. */
export function chooseEncoding(accept: string, hasProtobuf: boolean): Encoding | undefined {
  for (const wanted of accept.split(',')) {
    const [type = ''] = wanted.trim().split(';')
    if (type === 'application/vnd.kubernetes.protobuf' && hasProtobuf) return 'protobuf'
    if (type === 'application/json' || type === 'application/*' || type === '*/*' || type === '')
      return 'json'
  }
  return undefined
}
