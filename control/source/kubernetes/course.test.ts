import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  after,
  type Course,
  goesWell,
  initialCourse,
  listedAt,
  type Mode,
  movedTo,
  nextRequest,
  type Outcome,
} from './course.ts'
import type { ApiStatus } from './items.ts'
import { type Resource, resourcesFor } from './resources.ts'
import { defaultTiming } from './timing.ts'

const [services, slices, node, cidrs] = resourcesFor('n1') as readonly [
  Resource,
  Resource,
  Resource,
  Resource,
]
const timing = { ...defaultTiming, backoffMinMs: 100, backoffMaxMs: 1000, absentMs: 50_000 }
const at = (resource: Resource, chance = 0) => ({ resource, timing, chance })

const fresh = initialCourse('protobuf')
const watching = listedAt(fresh, '7')

const status = (code: number, fields: Partial<ApiStatus> = {}): ApiStatus => ({
  code,
  reason: '',
  message: '',
  causes: [],
  ...fields,
})
const refused = (code: number, fields: Partial<ApiStatus> = {}, retryAfterMs?: number): Outcome => ({
  type: 'refused',
  status: status(code, fields),
  retryAfterMs,
})
const ended = (type: 'closed' | 'silent' | 'cut', lasted: boolean): Outcome => ({ type, lasted })

/** What a request asks for. */
function asked(course: Course, resource = services, chance = 0) {
  const { mode, target, accept, beginsList } = nextRequest(course, at(resource, chance))
  const url = new URL(target, 'https://server')
  return { mode, path: url.pathname, accept, beginsList, query: Object.fromEntries(url.searchParams) }
}

/** The course after a series of outcomes, each of the request that is next. */
function afterAll(course: Course, outcomes: readonly Outcome[], resource = services): Course {
  return outcomes.reduce(
    (now, outcome) => after(now, nextRequest(now, at(resource)).mode, outcome, at(resource)),
    course,
  )
}

describe('what is asked for', () => {
  test('first a streaming list, of what a proxy is to see', () => {
    assert.deepEqual(asked(fresh), {
      mode: 'streaming list',
      path: '/api/v1/services',
      accept: 'application/vnd.kubernetes.protobuf;stream=watch, application/json',
      beginsList: true,
      query: {
        labelSelector: '!service.kubernetes.io/service-proxy-name',
        fieldSelector: 'spec.clusterIP!=None',
        watch: '1',
        allowWatchBookmarks: 'true',
        timeoutSeconds: '300',
        sendInitialEvents: 'true',
        resourceVersionMatch: 'NotOlderThan',
      },
    })
    assert.equal(asked(fresh, slices).query['labelSelector'], '!service.kubernetes.io/headless')
    assert.equal(asked(fresh, node).query['fieldSelector'], 'metadata.name=n1')
    assert.equal(asked(fresh, cidrs).path, '/apis/networking.k8s.io/v1/servicecidrs')
  })

  test('then a watch from there, with a limit that chance decides', () => {
    const { mode, query, beginsList } = asked(watching, slices, 0.5)
    assert.deepEqual([mode, beginsList], ['watch', false])
    assert.equal(query['resourceVersion'], '7')
    assert.equal(query['allowWatchBookmarks'], 'true')
    assert.equal(query['timeoutSeconds'], '450')
    assert.equal(query['sendInitialEvents'], undefined)
  })

  test('pages where there are no streaming lists, each from where the one before it ended', () => {
    const paged = { ...fresh, streamingLists: false }
    const first = asked(paged, slices)
    assert.deepEqual(
      [first.mode, first.beginsList, first.accept],
      ['list', true, 'application/vnd.kubernetes.protobuf, application/json'],
    )
    assert.deepEqual(first.query, { labelSelector: '!service.kubernetes.io/headless', limit: '500' })
    const second = afterAll(paged, [{ type: 'page', version: '7', continueToken: 'more' }], slices)
    assert.equal(second.isListed, false)
    assert.equal(asked(second, slices).query['continue'], 'more')
    assert.equal(asked(second, slices).beginsList, false)
    const done = afterAll(second, [{ type: 'page', version: '7', continueToken: '' }], slices)
    assert.deepEqual([done.isListed, done.version, done.delayMs], [true, '7', 0])
    assert.equal(asked(done, slices).mode, 'watch')
  })

  test('JSON alone, if so configured', () => {
    assert.equal(asked(initialCourse('json')).accept, 'application/json')
  })
})

describe('a server that refuses something is asked without it, at once and from then on', () => {
  const cases: [what: string, mode: Mode, course: Course, outcome: Outcome, changed: Partial<Course>][] = [
    ['protobuf', 'streaming list', fresh, refused(406), { protobuf: false }],
    ['protobuf, otherwise', 'watch', watching, refused(415), { protobuf: false }],
    ['streaming lists', 'streaming list', fresh, refused(422), { streamingLists: false }],
    ['streaming lists, otherwise', 'streaming list', fresh, refused(400), { streamingLists: false }],
    [
      'streaming lists, by a plain watch',
      'streaming list',
      fresh,
      { type: 'not streaming' },
      { streamingLists: false },
    ],
    [
      'streaming lists, by never ending one',
      'streaming list',
      fresh,
      ended('silent', true),
      { streamingLists: false },
    ],
    [
      'the field selector',
      'streaming list',
      fresh,
      refused(400, { message: 'field label not supported: spec.clusterIP' }),
      { fieldSelector: false },
    ],
    ['the field selector of a watch', 'watch', watching, refused(400), { fieldSelector: false }],
  ]
  for (const [what, mode, course, outcome, changed] of cases) {
    test(what, () => {
      assert.deepEqual(after(course, mode, outcome, at(services, 0.5)), { ...course, ...changed, delayMs: 0 })
    })
  }

  test('what is left is not refused for ever: in the end it is a failure', () => {
    const course = afterAll(fresh, [refused(400), refused(400), refused(400)])
    assert.deepEqual([course.streamingLists, course.fieldSelector, course.failures], [false, false, 1])
    assert.equal('fieldSelector' in asked(course).query, false)
    assert.equal(afterAll(fresh, [refused(400), refused(400)], slices).failures, 1, 'that selector is needed')
  })
})

describe('the end of a watch', () => {
  test('that went well is followed by the next one, and a break by a moment of chance', () => {
    for (const [type, delayMs] of [
      ['closed', 0],
      ['silent', 50],
      ['cut', 50],
    ] as const) {
      const next = after(goesWell(watching), 'watch', ended(type, true), at(services, 0.5))
      assert.deepEqual(next, { ...watching, delayMs }, type)
    }
  })

  test('that did not last is a failure, told of when it is no coincidence', () => {
    const courses = [1, 2, 3].map((count) => afterAll(watching, Array(count).fill(ended('closed', false))))
    assert.deepEqual(
      courses.map(({ failures, delayMs, version }) => [failures, delayMs, version]),
      [
        [1, 100, '7'],
        [2, 300, '7'],
        [3, 900, '7'],
      ],
    )
    assert.deepEqual(
      courses.map(({ trouble }) => trouble !== undefined),
      [false, false, true],
    )
  })

  test('in the midst of a streaming list begins it again', () => {
    const course = after(fresh, 'streaming list', ended('cut', false), at(services))
    assert.deepEqual([course.streamingLists, course.failures], [true, 1])
    assert.equal(asked(course).beginsList, true)
  })
})

describe('a version that is too old', () => {
  const expired: [string, Outcome][] = [
    ['as HTTP 410', refused(410, { reason: 'Expired' })],
    ['as an event', { type: 'error', status: status(410, { reason: 'Expired' }) }],
    ['as an event without a code', { type: 'error', status: status(0, { reason: 'Gone' }) }],
    ['because the server has lost its memory', refused(504, { causes: ['ResourceVersionTooLarge'] })],
  ]
  for (const [how, outcome] of expired) {
    test(`${how}: everything is listed again, after a pause`, () => {
      const course = after(watching, 'watch', outcome, at(services, 1))
      assert.deepEqual([course.version, course.delayMs, course.isListed], [undefined, 200, true])
      assert.equal(course.trouble, undefined)
      assert.equal(asked(course).mode, 'streaming list')
    })
  }

  test('again and again: two lists at most in the first ten seconds', () => {
    const real = { resource: services, timing: defaultTiming, chance: 0 }
    let course = watching
    let passedMs = 0
    let lists = 0
    for (;;) {
      course = after(course, 'watch', refused(410), real)
      passedMs += course.delayMs
      if (passedMs > 10_000) break
      lists += 1
      course = listedAt(course, '9')
    }
    assert.equal(lists, 2)
  })

  test('after an outage: the server is back, so the pause is short again', () => {
    const away = afterAll(watching, Array(6).fill({ type: 'unreachable', message: 'no' }))
    const course = after(away, 'watch', refused(410), at(services))
    assert.deepEqual([away.delayMs, course.delayMs], [1000, 100])
  })

  test('in the midst of pages: the next list is in one piece', () => {
    const paging = { ...fresh, streamingLists: false, continueToken: 'more' }
    const course = after(paging, 'list', refused(410), at(services))
    assert.deepEqual(asked(course).query['limit'], undefined)
    assert.equal(asked(course).beginsList, true)
    assert.equal(asked({ ...listedAt(course, '9'), version: undefined }).query['limit'], '500')
  })

  test('other errors keep it', () => {
    for (const code of [0, 500]) {
      const course = after(watching, 'watch', { type: 'error', status: status(code) }, at(services))
      assert.deepEqual([course.version, course.failures], ['7', 1])
    }
  })

  test('so does garbage about nobody knows what not: it may have been a removal', () => {
    const course = after(watching, 'watch', { type: 'garbled', message: 'what?' }, at(services))
    assert.equal(asked(course).beginsList, true)
  })
})

describe('failures', () => {
  test('are followed by longer and longer pauses, up to a limit, and chance doubles them', () => {
    const unreachable: Outcome = { type: 'unreachable', message: 'connect ECONNREFUSED' }
    const pauses = [1, 2, 3, 4, 9].map((count) => afterAll(watching, Array(count).fill(unreachable)).delayMs)
    assert.deepEqual(pauses, [100, 300, 900, 1000, 1000])
    assert.equal(after(watching, 'watch', unreachable, at(services, 1)).delayMs, 200)
  })

  test('are over when a watch has gone well', () => {
    const course = afterAll(watching, [refused(500), refused(500)])
    assert.deepEqual(goesWell(course), { ...course, failures: 0, trouble: undefined })
  })

  test('Retry-After is the least', () => {
    assert.equal(after(watching, 'watch', refused(429, {}, 7000), at(services)).delayMs, 7000)
    assert.equal(after(watching, 'watch', refused(503, {}, 7), at(services)).delayMs, 100)
  })

  test('are told of: about the server, or about one kind of objects', () => {
    const told = (outcome: Outcome) => after(watching, 'watch', outcome, at(services)).trouble
    assert.deepEqual(told({ type: 'unreachable', message: 'connect ECONNREFUSED 10.0.0.1:6443' }), {
      about: 'server',
      message:
        'cannot be reached: connect ECONNREFUSED 10.0.0.1:6443; what is known stays in force, and it is tried again',
    })
    assert.deepEqual(told(refused(403, { reason: 'Forbidden', message: 'no' })), {
      about: 'resource',
      message: 'may not be read; bind the ClusterRole system:node-proxier: 403 Forbidden: no',
    })
    assert.equal(
      told(refused(500, { message: 'etcdserver: timeout' }))?.message,
      'cannot be read: 500: etcdserver: timeout',
    )
  })

  test('credentials that are refused are tried once more at once, and then with pauses', () => {
    const first = after(watching, 'watch', refused(401), at(services))
    assert.deepEqual([first.delayMs, first.failures, first.trouble], [0, 0, undefined])
    const second = after(first, 'watch', refused(401), at(services))
    assert.deepEqual([second.delayMs, second.failures, second.trouble?.about], [100, 1, 'server'])
    assert.equal(after(second, 'watch', refused(401), at(services)).delayMs, 300)
    const well = goesWell(second)
    assert.equal(after(well, 'watch', refused(401), at(services)).delayMs, 0)
  })
})

describe('kinds that a cluster need not have', () => {
  test('are listed by not being there, and asked for again much later', () => {
    const course = after(fresh, 'streaming list', refused(404), at(cidrs, 0.5))
    assert.deepEqual(
      [course.isListed, course.isAbsent, course.delayMs, course.trouble],
      [true, true, 75_000, undefined],
    )
    assert.equal(asked(course, cidrs).beginsList, true)
    assert.equal(listedAt(course, '7').isAbsent, false)
  })

  test('keep nobody waiting when they may not be read', () => {
    const course = after(fresh, 'streaming list', refused(403), at(cidrs))
    assert.deepEqual([course.isListed, course.failures, course.trouble?.about], [true, 1, 'resource'])
  })

  test('are no trouble when a proxy need not read them: pods and namespaces, asked for more and more rarely', () => {
    const more = resourcesFor('n1', 'late').filter(({ plural }) => ['pods', 'namespaces'].includes(plural))
    assert.equal(more.length, 2)
    for (const resource of more) {
      const delays: number[] = []
      let course = { ...watching, isListed: false }
      for (let i = 0; i < 8; i++) {
        course = after(course, 'watch', refused(403), at(resource))
        delays.push(course.delayMs)
        assert.deepEqual(
          [course.isListed, course.isWithheld, course.isAbsent, course.trouble, course.version],
          [true, true, false, undefined, '7'],
        )
      }
      assert.deepEqual(delays, [100, 300, 900, 2700, 8100, 24_300, timing.absentMs, timing.absentMs])
      assert.equal(listedAt(course, '8').isWithheld, false)
      assert.deepEqual([goesWell(course).isWithheld, goesWell(course).failures], [false, 0])
    }
  })

  test('the others do', () => {
    for (const code of [403, 404]) {
      const course = after(fresh, 'streaming list', refused(code), at(services))
      assert.deepEqual([course.isListed, course.failures], [false, 1])
    }
  })
})

test('a version is opaque: it moves to whatever is told, and not to nothing', () => {
  assert.equal(movedTo(watching, '10').version, '10')
  assert.equal(movedTo(watching, '3').version, '3')
  assert.equal(movedTo(watching, ''), watching)
})
