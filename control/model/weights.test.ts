import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { desiredState } from './desired.ts'
import { makeCluster, makeEndpoint, makeNodeFacts, makeService, makeSlice } from './fixtures.ts'
import { parseWeights, weightedTurns, weightOf } from './weights.ts'

describe('the annotation', () => {
  const read = (text: string) => {
    const problems: string[] = []
    return { weights: parseWeights(text, (message) => problems.push(message)), problems }
  }

  test('is patterns and weights, with commas between them', () => {
    assert.deepEqual(read(' web-canary-* = 1, web-*=9,10.244.1.7=0 '), {
      weights: [
        { pattern: 'web-canary-*', weight: 1 },
        { pattern: 'web-*', weight: 9 },
        { pattern: '10.244.1.7', weight: 0 },
      ],
      problems: [],
    })
  })

  for (const part of [
    '',
    'web',
    'web=',
    '=1',
    'web=-1',
    'web=1.5',
    'web=x',
    'web=65536',
    'a b=1',
    'web=1=2',
  ]) {
    test(`a part that says nothing is left out and told: ${JSON.stringify(part)}`, () => {
      const { weights, problems } = read(`a=1,${part},b=2`)
      assert.deepEqual(
        weights.map(({ pattern }) => pattern),
        ['a', 'b'],
      )
      assert.deepEqual(problems, [
        `${JSON.stringify(part)} is not PATTERN=WEIGHT with a weight from 0 to 65535; it is left out`,
      ])
    })
  }

  const rows: [pattern: string, podName: string, matches: boolean][] = [
    ['web-1', 'web-1', true],
    ['web', 'web-1', false],
    ['*', 'web-1', true],
    ['web-*', 'web-1', true],
    ['web-*', 'web-', true],
    ['web-?', 'web-1', true],
    ['web-?', 'web-10', false],
    ['*-canary-*', 'web-canary-x-canary-y', true],
    ['*a*b', 'xaxxb', true],
    ['*a*b', 'xaxxc', false],
    ['w.b-1', 'web-1', false],
    ['*', '', false],
    ['10.0.0.1', '', true],
    ['10.0.0.*', '', false],
  ]
  for (const [pattern, podName, expected] of rows) {
    test(`${pattern} is ${expected ? '' : 'not '}for ${podName || 'an endpoint that is no pod'} at 10.0.0.1`, () => {
      const weight = weightOf({ podName, address: '10.0.0.1' }, [{ pattern, weight: 7 }])
      assert.equal(weight, expected ? 7 : 1)
    })
  }

  test('the first rule that matches counts', () => {
    const weights = parseWeights('web-canary-*=2,web-*=5', assert.fail)
    const of = (podName: string) => weightOf({ podName, address: '10.0.0.1' }, weights)
    assert.deepEqual([of('web-canary-1'), of('web-1'), of('db-1')], [2, 5, 1])
  })
})

describe('turns', () => {
  test('are spread as evenly as can be', () => {
    assert.equal(weightedTurns([4, 3, 2], 100).join(''), '012010210')
    assert.equal(
      weightedTurns([40, 30, 20], 100).join(''),
      '012010210',
      'what they have in common does not count',
    )
    assert.deepEqual(weightedTurns([5, 5, 5], 100), [0, 1, 2])
    assert.deepEqual(weightedTurns([], 100), [])
  })

  test('are exactly as many as the weights say where they fit, else about so, and one for each at least', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 65_535 }), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(weights, (given) => {
        const most = 4093
        const turns = weightedTurns(given, most)
        const sum = given.reduce((total, weight) => total + weight, 0)
        assert.ok(turns.length <= most)
        given.forEach((weight, i) => {
          const count = turns.filter((index) => index === i).length
          assert.ok(count > 0)
          // Whole turns, of a row that is shorter by what the least ones are rounded up by.
          const share = weight / sum
          assert.ok(
            Math.abs(count / turns.length - share) <= 2 / turns.length + given.length / most,
            `${weight}`,
          )
        })
      }),
    )
  })
})

describe('a service with weights', () => {
  const endpoints = ['a', 'b', 'c'].map((name, i) =>
    makeEndpoint(`10.244.1.${i + 1}`, { nodeName: 'n1' }, name),
  )
  const modelOf = (annotations: Readonly<Record<string, string>>) => {
    const { desired, problems } = desiredState(
      makeCluster([makeService({ annotations })], [makeSlice(endpoints)]),
      makeNodeFacts({ name: 'n1' }),
    )
    const port = desired.services.get('default/web')?.[0]
    assert.ok(port)
    return { port, problems }
  }

  test('has them on its backends', () => {
    const { port, problems } = modelOf({
      'sluice.dev/weights': 'a=3,10.244.1.2=2',
      'sluice.dev/scheduler': 'weighted-round-robin',
    })
    assert.deepEqual(
      port.backends.map(({ weight }) => weight),
      [3, 2, 1],
    )
    assert.deepEqual([port.cluster, problems], [[0, 1, 2], []])
  })

  test('of 0 drains a backend, whatever the scheduler: it is in no list, but there', () => {
    const { port, problems } = modelOf({ 'sluice.dev/weights': 'b=0' })
    assert.deepEqual([port.cluster, port.backends.length, problems], [[0, 2], 3, []])
  })

  test('of 0 for all of them leaves nobody', () => {
    assert.deepEqual(modelOf({ 'sluice.dev/weights': '*=0' }).port.cluster, [])
  })

  test('says so when the scheduler knows none', () => {
    const { problems } = modelOf({ 'sluice.dev/weights': 'b=2' })
    assert.deepEqual(
      problems.map(({ object, field }) => `${object} ${field}`),
      ['Service default/web metadata.annotations[sluice.dev/weights]'],
    )
    assert.match(
      problems[0]?.message ?? '',
      /^round-robin knows no weight but 0, which drains; those that do /,
    )
  })

  test('says so when a part of them cannot be read', () => {
    const { problems } = modelOf({ 'sluice.dev/weights': 'b' })
    assert.match(problems[0]?.message ?? '', /^"b" is not PATTERN=WEIGHT/)
  })
})
