/** The answer to each request. */

import type { Answer } from './behaviour.ts'
import { CONTENT_TYPES, type Encoding, type Status } from './encoder.ts'
import type { Exchange } from './exchange.ts'
import { KINDS } from './kinds.ts'
import { type ApiRequest, chooseEncoding, readRequest } from './requests.ts'
import { parseFieldSelector, parseLabelSelector, type Selector, SelectorError } from './selectors.ts'
import type { ApiServer } from './server.ts'
import { Watch, type WatchedEvent } from './watch.ts'

/** A request, and all that the answer depends on. */
interface Call {
  readonly server: ApiServer
  readonly exchange: Exchange
  readonly request: ApiRequest
  readonly encoding: Encoding
  readonly selector: Selector
}

/** Answers with this status instead. */
class Refused extends Error {
  readonly status: Status

  constructor(code: number, reason: string, message: string, more: Partial<Status> = {}) {
    super(message)
    this.status = { code, reason, message, ...more }
  }
}

const EVENTS_PATH = /^\/apis\/events\.k8s\.io\/v1\/namespaces\/[^/]+\/events$/

export function handleRequest(server: ApiServer, exchange: Exchange): void {
  if (EVENTS_PATH.test(exchange.url.pathname)) {
    void handleEvents(server, exchange)
    return
  }
  const request = readRequest(exchange.url)
  if (request === undefined) {
    answerElsewhere(exchange)
    return
  }
  const accept = String(exchange.headers.accept ?? '*/*')
  const encoding = chooseEncoding(accept, server.behaviour.protobuf)
  server.requests.push({
    ...request,
    atMs: performance.now(),
    encoding,
    authorization: exchange.headers.authorization,
  })
  const answer = server.answers.take(request)
  if (answer === undefined) serve(server, exchange, request, encoding)
  else if (typeof answer === 'object' && 'delayMs' in answer) {
    setTimeout(() => serve(server, exchange, request, encoding), answer.delayMs)
  } else answerBadly(server, exchange, request, encoding ?? 'json', answer)
}

/** They are written, and listed for tests that look from outside; nothing watches them. */
async function handleEvents(server: ApiServer, exchange: Exchange): Promise<void> {
  if (exchange.method !== 'POST') {
    const items = server.events.filter(({ status }) => status < 300).map(({ object }) => object)
    const list = { apiVersion: 'events.k8s.io/v1', kind: 'EventList', metadata: {}, items }
    exchange.respond(200, headersOf('json'), Buffer.from(JSON.stringify(list)))
    return
  }
  const body = await exchange.body.catch(() => undefined)
  if (body === undefined) return
  const status = isKnown(server, exchange) ? (server.behaviour.eventStatus ?? 201) : 401
  server.events.push({ object: JSON.parse(body.toString()), status })
  if (status < 300) exchange.respond(status, headersOf('json'), body)
  else sendStatus(server, exchange, 'json', { code: status, reason: '', message: 'no' })
}

/** By a certificate or a token. */
function isKnown({ behaviour }: ApiServer, exchange: Exchange): boolean {
  const token = /^Bearer (.+)$/.exec(exchange.headers.authorization ?? '')?.[1]
  return exchange.hasCertificate || (token !== undefined && behaviour.tokens.has(token))
}

/** The right answer. */
function serve(
  server: ApiServer,
  exchange: Exchange,
  request: ApiRequest,
  encoding: Encoding | undefined,
): void {
  try {
    const call = checkCall(server, exchange, request, encoding)
    if (request.verb === 'list') exchange.respond(200, headersOf(call.encoding), listBody(call))
    else if (request.verb === 'get') exchange.respond(200, headersOf(call.encoding), objectBody(call))
    else serveWatch(call)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    sendStatus(server, exchange, encoding ?? 'json', error.status)
  }
}

function checkCall(
  server: ApiServer,
  exchange: Exchange,
  request: ApiRequest,
  encoding: Encoding | undefined,
): Call {
  const { behaviour } = server
  if (!isKnown(server, exchange)) throw new Refused(401, 'Unauthorized', 'Unauthorized')
  if (exchange.method !== 'GET') {
    throw new Refused(
      405,
      'MethodNotAllowed',
      'the server does not allow this method on the requested resource',
    )
  }
  if (behaviour.absent.has(request.resource)) {
    throw new Refused(404, 'NotFound', 'the server could not find the requested resource')
  }
  if (behaviour.forbidden.has(request.resource)) {
    const message = `${request.resource} is forbidden: User "system:node-proxier" cannot ${request.verb} resource "${request.resource}"`
    throw new Refused(403, 'Forbidden', message)
  }
  if (encoding === undefined) {
    throw new Refused(406, 'NotAcceptable', 'only the following media types are accepted: application/json')
  }
  return { server, exchange, request, encoding, selector: selectorOf(request, behaviour.selectsClusterIP) }
}

function selectorOf({ resource, query, namespace }: ApiRequest, selectsClusterIP: boolean): Selector {
  const fields = [
    'metadata.name',
    'metadata.namespace',
    ...(selectsClusterIP ? ['spec.clusterIP'] : []),
    ...(resource === 'pods' ? ['spec.nodeName'] : []),
  ]
  try {
    const byLabel = parseLabelSelector(query.get('labelSelector') ?? '')
    const byField = parseFieldSelector(query.get('fieldSelector') ?? '', new Set(fields))
    return (object) =>
      (namespace === undefined || object.metadata.namespace === namespace) &&
      byLabel(object) &&
      byField(object)
  } catch (error) {
    if (error instanceof SelectorError) throw new Refused(400, 'BadRequest', error.message)
    throw error
  }
}

function listBody({ server, request, encoding, selector }: Call): Buffer {
  const { objects, pages, encoder } = server
  const { resource, query } = request
  const token = query.get('continue') ?? ''
  // With version 0 the API server answers from its cache, which knows no pages.
  const limit = query.get('resourceVersion') === '0' ? 0 : Number(query.get('limit') ?? 0)
  const page =
    token === ''
      ? pages.first(objects.list(resource).filter(selector), objects.revision, limit)
      : pages.next(token, limit, objects.compacted)
  if (page === undefined) {
    throw new Refused(
      410,
      'Expired',
      'The provided continue parameter is too old to display a consistent list result.',
    )
  }
  return encoder.list(resource, page.metadata, page.objects, encoding)
}

function objectBody({ server, request, encoding }: Call): Buffer {
  const { resource, namespace, name = '' } = request
  const object = server.objects.get(resource, namespace === undefined ? name : `${namespace}/${name}`)
  if (object === undefined) throw new Refused(404, 'NotFound', `${resource} "${name}" not found`)
  return server.encoder.object(resource, object, encoding)
}

function serveWatch(call: Call): void {
  const { server, exchange, request, encoding, selector } = call
  const { query, resource } = request
  const bookmarks = ['1', 'true'].includes(query.get('allowWatchBookmarks') ?? '')
  const begin = beginOf(call, bookmarks)
  const watch = new Watch({ resource, encoding, selector, bookmarks, encoder: server.encoder, exchange })
  exchange.begin(200, headersOf(encoding, true))
  if (begin.expired !== undefined) {
    watch.sendStatus(begin.expired)
    watch.end()
    return
  }
  watch.send(...begin.events)
  if (begin.endsWithBookmark) watch.bookmark(server.objects.revision, true)
  server.addWatch(watch, exchange.closed)
  const seconds = Math.min(Number(query.get('timeoutSeconds') ?? 1800), server.behaviour.watchSecondsMax)
  const timer = setTimeout(() => watch.end(), seconds * 1000).unref()
  void exchange.closed.then(() => clearTimeout(timer))
}

interface Begin {
  /** Set: the answer is this event alone. */
  readonly expired?: Status
  readonly events: readonly WatchedEvent[]
  readonly endsWithBookmark: boolean
}

/** What a watch begins with. */
function beginOf({ server, request }: Call, bookmarks: boolean): Begin {
  const { objects, behaviour } = server
  const { query, resource, verb } = request
  const everything = (): WatchedEvent[] =>
    objects.list(resource).map((object) => ({ type: 'ADDED', object, previous: undefined }))
  if (verb === 'streaming list' && behaviour.streamingLists !== 'ignored') {
    const valid = query.get('resourceVersionMatch') === 'NotOlderThan' && bookmarks
    if (behaviour.streamingLists === 'invalid' || !valid) {
      const message =
        'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled'
      throw new Refused(422, 'Invalid', message)
    }
    return { events: everything(), endsWithBookmark: true }
  }
  const version = query.get('resourceVersion') ?? ''
  if (version === '' || version === '0') return { events: everything(), endsWithBookmark: false }
  if (!/^\d+$/.test(version)) throw new Refused(400, 'BadRequest', `invalid resource version "${version}"`)
  if (Number(version) > objects.revision) {
    const message = `Too large resource version: ${version}, current: ${objects.revision}`
    throw new Refused(504, 'Timeout', message, { retryAfterSeconds: 1, causes: ['ResourceVersionTooLarge'] })
  }
  const events = objects.eventsSince(resource, Number(version))
  if (events !== undefined) return { events, endsWithBookmark: false }
  const expired = expiredStatus(version, objects.compacted)
  if (behaviour.expiry === 'status') throw new Refused(expired.code, expired.reason, expired.message)
  return { expired, events: [], endsWithBookmark: false }
}

export function expiredStatus(version: string, compacted: number): Status {
  return { code: 410, reason: 'Expired', message: `too old resource version: ${version} (${compacted})` }
}

function answerBadly(
  server: ApiServer,
  exchange: Exchange,
  request: ApiRequest,
  encoding: Encoding,
  answer: Exclude<Answer, { readonly delayMs: number }>,
): void {
  if (answer === 'silence') return
  if (answer === 'reset') exchange.reset()
  else if (answer === 'head') exchange.begin(200, headersOf(encoding, request.verb !== 'list'))
  else if (answer === 'half') {
    const whole = everythingIn(server, request, encoding)
    exchange.begin(200, headersOf(encoding, request.verb !== 'list'))
    exchange.write(whole.subarray(0, Math.ceil(whole.length / 2)))
    exchange.cut()
  } else if ('status' in answer) sendStatus(server, exchange, encoding, answer.status)
  else exchange.respond(answer.code, { 'content-type': answer.contentType }, Buffer.from(answer.text))
}

function everythingIn({ objects, encoder }: ApiServer, request: ApiRequest, encoding: Encoding): Buffer {
  const { resource, verb } = request
  const all = objects.list(resource)
  if (verb === 'list') return encoder.list(resource, {}, all, encoding)
  return Buffer.concat(all.map((object) => encoder.event('ADDED', resource, object, encoding)))
}

function sendStatus({ encoder }: ApiServer, exchange: Exchange, encoding: Encoding, status: Status): void {
  const retry = status.retryAfterSeconds
  const headers = {
    ...headersOf(encoding),
    ...(retry === undefined ? {} : { 'retry-after': String(retry) }),
  }
  exchange.respond(status.code, headers, encoder.status(status, encoding))
}

function headersOf(encoding: Encoding, isWatch = false): Record<string, string> {
  const stream = isWatch && encoding === 'protobuf' ? ';stream=watch' : ''
  return { 'content-type': `${CONTENT_TYPES[encoding]}${stream}`, 'cache-control': 'no-cache, private' }
}

/** What clients ask a server before they know it. */
function answerElsewhere(exchange: Exchange): void {
  const { pathname } = exchange.url
  const json = (value: object): [Record<string, string>, Buffer] => [
    { 'content-type': 'application/json' },
    Buffer.from(JSON.stringify(value)),
  ]
  if (pathname === '/version') {
    exchange.respond(200, ...json({ major: '1', minor: '36', gitVersion: 'v1.36.0' }))
  } else if (['/readyz', '/livez', '/healthz'].includes(pathname)) {
    exchange.respond(200, { 'content-type': 'text/plain' }, Buffer.from('ok'))
  } else {
    const message = `there is nothing at ${pathname}: ${Object.values(KINDS)
      .map(({ base, resource }) => `${base}/${resource}`)
      .join(', ')}`
    exchange.respond(
      404,
      ...json({
        kind: 'Status',
        apiVersion: 'v1',
        status: 'Failure',
        reason: 'NotFound',
        code: 404,
        message,
      }),
    )
  }
}
