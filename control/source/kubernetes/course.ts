/**
 * What to ask the API server for next, given what it answered so far: list everything, then watch from there, and begin
 * again where that does not work. Pure: answers come in, requests come out; time and chance are given.
 */

import type { ApiStatus } from './items.ts'
import type { Resource } from './resources.ts'
import type { Timing } from './timing.ts'

/** How far one kind of objects has come. Immutable. */
export interface Course {
  /** A watch can go on from here; undefined: everything is to be listed. Opaque: never compared but with itself. */
  readonly version: string | undefined
  /** The next page of the list that has been begun; empty for the first one. */
  readonly continueToken: string
  /** Every object has been told once. */
  readonly isListed: boolean
  /** The server has no such kind of objects, which is allowed. */
  readonly isAbsent: boolean
  /** The server does not show this kind, which is no trouble (`Resource.whenWithheld`). What is known stays in force. */
  readonly isWithheld: boolean
  /** What the server has not refused yet. */
  readonly streamingLists: boolean
  readonly fieldSelector: boolean
  readonly protobuf: boolean
  /** False after a list whose pages came too slowly: by the time of the next one the first was forgotten. */
  readonly pages: boolean
  /** The last stream came over a connection that is pinged. */
  readonly pinged: boolean
  /** In a row, since a watch last went well or the server at least said something sensible. */
  readonly failures: number
  /** How often the version was too old since a watch last went well. */
  readonly expiries: number
  /** The last answer was that the credentials are not good. */
  readonly wasUnauthorized: boolean
  /** So long nothing is to be asked for. */
  readonly delayMs: number
  /** What a person should know, as long as it lasts. */
  readonly trouble: Trouble | undefined
}

export interface Trouble {
  /** Whether it is about the server as a whole or only about this kind of objects. */
  readonly about: 'server' | 'resource'
  /** The same as long as the trouble is the same. */
  readonly message: string
}

export type Mode = 'list' | 'streaming list' | 'watch'

export interface ApiRequest {
  readonly mode: Mode
  /** A new list begins, not a further page of one. */
  readonly beginsList: boolean
  /** Path and query. */
  readonly target: string
  readonly accept: string
}

/** How a request ended. */
export type Outcome =
  /** A page of a list. */
  | { readonly type: 'page'; readonly version: string; readonly continueToken: string }
  /**
   * The server ended a stream as it should, nothing came any more, or the connection broke. `lasted`: it had gone well
   * until then, see `goesWell`.
   */
  | { readonly type: 'closed' | 'silent' | 'cut'; readonly lasted: boolean }
  /** There was no answer. */
  | { readonly type: 'unreachable'; readonly message: string }
  /** An answer that is an error. */
  | { readonly type: 'refused'; readonly status: ApiStatus; readonly retryAfterMs: number | undefined }
  /** An error as an event of a stream. */
  | { readonly type: 'error'; readonly status: ApiStatus }
  /** Something came that makes no sense, and may have been about any object. */
  | { readonly type: 'garbled'; readonly message: string }
  /** A streaming list was asked for, and what came was none. */
  | { readonly type: 'not streaming' }

/** Whatever an outcome leads to depends on no more than this. */
export interface Circumstances {
  readonly resource: Resource
  readonly timing: Timing
  /** From 0 to 1, drawn for this one use. */
  readonly chance: number
}

export function initialCourse(contentType: 'protobuf' | 'json'): Course {
  return {
    version: undefined,
    continueToken: '',
    isListed: false,
    isAbsent: false,
    isWithheld: false,
    streamingLists: true,
    fieldSelector: true,
    protobuf: contentType === 'protobuf',
    pages: true,
    pinged: true,
    failures: 0,
    expiries: 0,
    wasUnauthorized: false,
    delayMs: 0,
    trouble: undefined,
  }
}

// ---- requests ----

export function nextRequest(course: Course, { resource, timing, chance }: Circumstances): ApiRequest {
  const mode = modeOf(course)
  const query = new URLSearchParams()
  if (resource.labelSelector !== undefined) query.set('labelSelector', resource.labelSelector)
  if (resource.fieldSelector !== undefined && course.fieldSelector) {
    query.set('fieldSelector', resource.fieldSelector)
  }
  if (mode === 'list') {
    // Without a version the answer is as new as the server's storage: a list never leads back in time.
    if (course.pages) query.set('limit', String(timing.pageSize))
    if (course.continueToken !== '') query.set('continue', course.continueToken)
  } else {
    query.set('watch', '1')
    query.set('allowWatchBookmarks', 'true')
    query.set('timeoutSeconds', String(Math.ceil(timeoutSeconds(course, mode, timing) * (1 + chance))))
    if (mode === 'watch') query.set('resourceVersion', course.version ?? '')
    else {
      query.set('sendInitialEvents', 'true')
      query.set('resourceVersionMatch', 'NotOlderThan')
    }
  }
  return {
    mode,
    beginsList: mode !== 'watch' && course.continueToken === '',
    target: `${resource.path}?${query}`,
    accept: acceptOf(course.protobuf, mode),
  }
}

/** A list that takes its time is not to be cut short. */
function timeoutSeconds({ pinged }: Course, mode: Mode, timing: Timing): number {
  return pinged || mode === 'streaming list' ? timing.watchTimeoutSeconds : timing.unpingedWatchTimeoutSeconds
}

function modeOf({ version, continueToken, streamingLists }: Course): Mode {
  if (version !== undefined) return 'watch'
  return streamingLists && continueToken === '' ? 'streaming list' : 'list'
}

function acceptOf(protobuf: boolean, mode: Mode): string {
  if (!protobuf) return 'application/json'
  const stream = mode === 'list' ? '' : ';stream=watch'
  return `application/vnd.kubernetes.protobuf${stream}, application/json`
}

// ---- what happens while an answer comes in ----

/** A stream has begun to come in. */
export function streamingOver(course: Course, { pinged }: Pick<Course, 'pinged'>): Course {
  return pinged === course.pinged ? course : { ...course, pinged }
}

/** A stream has come so far. */
export function movedTo(course: Course, version: string): Course {
  return version === '' || version === course.version ? course : { ...course, version }
}

/** Everything has been listed, and a watch can go on from here. */
export function listedAt(course: Course, version: string): Course {
  return {
    ...course,
    version,
    continueToken: '',
    isListed: true,
    isAbsent: false,
    isWithheld: false,
    pages: true,
  }
}

/** A watch goes well: it has lasted for longer than the shortest pause after a failure. */
export function goesWell(course: Course): Course {
  return {
    ...course,
    isWithheld: false,
    failures: 0,
    expiries: 0,
    wasUnauthorized: false,
    trouble: undefined,
  }
}

// ---- what an outcome leads to ----

const QUIET_TIMES = 2

/** What is next after a request has come to its end. */
export function after(course: Course, mode: Mode, outcome: Outcome, about: Circumstances): Course {
  switch (outcome.type) {
    case 'page': {
      const next = { ...course, wasUnauthorized: false, delayMs: 0 }
      if (outcome.continueToken !== '') return { ...next, continueToken: outcome.continueToken }
      return listedAt(next, outcome.version)
    }
    case 'closed':
    case 'silent':
    case 'cut':
      return afterStream(course, outcome, about)
    case 'unreachable':
      return failed(course, about, serverTrouble(`cannot be reached: ${outcome.message}`))
    case 'refused':
      return isExpired(outcome.status)
        ? afterExpiry(course, mode, about)
        : afterRefusal(course, mode, outcome, about)
    case 'error':
      return isExpired(outcome.status)
        ? afterExpiry(course, mode, about)
        : failed(course, about, resourceTrouble('the watch ends in an error', outcome.status))
    case 'garbled':
      return beginAgain(failed(course, about, { about: 'resource', message: outcome.message }))
    case 'not streaming':
      return { ...course, streamingLists: false, delayMs: 0 }
  }
}

/**
 * A watch that went well goes on at once where the server ended it, and after a moment where something broke: then
 * very many clients are likely to come back together.
 */
function afterStream(
  course: Course,
  { type, lasted }: Extract<Outcome, { readonly type: 'closed' | 'silent' | 'cut' }>,
  about: Circumstances,
): Course {
  const isUnfinishedList = course.version === undefined
  // A server that does not know the words takes it for a watch, and never says that the list is complete.
  if (isUnfinishedList && type !== 'cut') return { ...course, streamingLists: false, delayMs: 0 }
  if (!lasted) {
    const trouble = unlessQuiet(course.failures + 1, 'every watch ends as soon as it has begun')
    return failed(course, about, trouble)
  }
  return { ...course, delayMs: type === 'closed' ? 0 : about.timing.backoffMinMs * about.chance }
}

/**
 * The version is too old for the server to go on from, or newer than anything it has: it has lost its memory, or come
 * back with an older one.
 */
function isExpired({ code, reason, causes }: ApiStatus): boolean {
  return (
    code === 410 || reason === 'Expired' || reason === 'Gone' || causes.includes('ResourceVersionTooLarge')
  )
}

/** The first time after an outage it is done soon: the server is back. */
function afterExpiry(course: Course, mode: Mode, { timing, chance }: Circumstances): Course {
  const expiries = course.expiries + 1
  return {
    ...beginAgain(course),
    expiries,
    failures: 0,
    wasUnauthorized: false,
    delayMs: backoffMs(expiries, timing) * (1 + chance),
    pages: course.pages && !(mode === 'list' && course.continueToken !== ''),
    trouble: unlessQuiet(expiries, 'every list is out of date at once') ?? course.trouble,
  }
}

function beginAgain(course: Course): Course {
  return { ...course, version: undefined, continueToken: '' }
}

function afterRefusal(
  course: Course,
  mode: Mode,
  { status, retryAfterMs }: Extract<Outcome, { readonly type: 'refused' }>,
  about: Circumstances,
): Course {
  const { resource, timing, chance } = about
  const adapted = adapt(course, mode, status, resource)
  if (adapted !== undefined) return { ...adapted, delayMs: 0 }
  if (status.code === 404 && resource.isOptional) {
    const delayMs = timing.absentMs * (1 + chance)
    return { ...goesWell(beginAgain(course)), isListed: true, isAbsent: true, delayMs }
  }
  if (status.code === 401) {
    if (!course.wasUnauthorized) return { ...course, wasUnauthorized: true, delayMs: 0 }
    const trouble = serverTrouble('refuses the credentials (401): renew the token or the certificate')
    return { ...failed(course, about, trouble, retryAfterMs), wasUnauthorized: true }
  }
  if (status.code === 403 && resource.whenWithheld !== undefined) {
    // Soon at first, for a server that has just started refuses everybody; in the end as rarely as what is absent.
    const patient = { resource, timing: { ...timing, backoffMaxMs: timing.absentMs }, chance }
    const next = failed(course, patient, undefined, retryAfterMs)
    return { ...next, isListed: true, isWithheld: true, trouble: undefined }
  }
  const forbidden = 'may not be read; bind the ClusterRole system:node-proxier'
  const trouble = resourceTrouble(status.code === 403 ? forbidden : 'cannot be read', status)
  const next = failed(course, about, trouble, retryAfterMs)
  return status.code === 403 && resource.isOptional ? { ...next, isListed: true } : next
}

/** The same without what the server refuses; undefined if there is nothing to do without. */
function adapt(course: Course, mode: Mode, status: ApiStatus, resource: Resource): Course | undefined {
  const { code, message } = status
  if (course.protobuf && (code === 406 || code === 415)) return { ...course, protobuf: false }
  if (code !== 400 && code !== 422) return undefined
  const canDropSelector = resource.fieldSelectorIsOptional && course.fieldSelector
  const isAboutSelector =
    canDropSelector && (mode !== 'streaming list' || /field label|field selector/i.test(message))
  if (isAboutSelector) return { ...course, fieldSelector: false }
  return mode === 'streaming list' ? { ...course, streamingLists: false } : undefined
}

function failed(course: Course, about: Circumstances, trouble: Trouble | undefined, atLeastMs = 0): Course {
  const failures = course.failures + 1
  return {
    ...course,
    failures,
    wasUnauthorized: false,
    delayMs: Math.max(backoffMs(failures, about.timing), atLeastMs) * (1 + about.chance),
    trouble: trouble ?? course.trouble,
  }
}

/** The least pause after so many failures in a row. */
function backoffMs(failures: number, { backoffMinMs, backoffMaxMs }: Timing): number {
  return Math.min(backoffMaxMs, backoffMinMs * 3 ** (failures - 1))
}

/** What happens now and then is nobody's business, until it happens so often. */
function unlessQuiet(times: number, message: string): Trouble | undefined {
  return times <= QUIET_TIMES ? undefined : { about: 'resource', message }
}

function serverTrouble(message: string): Trouble {
  return { about: 'server', message: `${message}; what is known stays in force, and it is tried again` }
}

/** Says what the server said, without what is different each time. */
function resourceTrouble(message: string, { code, reason, message: said }: ApiStatus): Trouble {
  const why = [code || '', reason].filter((part) => part !== '').join(' ') || 'no reason given'
  return { about: 'resource', message: `${message}: ${why}${said === '' ? '' : `: ${said}`}` }
}
