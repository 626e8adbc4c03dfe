import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLog, type LogOptions, levelOf, textLine } from './log.ts'

/** The lines that a few calls of a log write. */
function linesOf(
  options: Pick<LogOptions, 'format' | 'verbosity'>,
  use: (log: ReturnType<typeof createLog>) => void,
) {
  const lines: string[] = []
  use(createLog({ ...options, write: (line) => lines.push(line) }))
  return lines
}

describe('the text format', () => {
  const at = new Date(2026, 0, 2, 17, 2, 3, 123).toISOString()
  const cases: [name: string, fields: Record<string, unknown>, text: string][] = [
    ['a message alone', {}, '17:02:03.123 INFO  hello\n'],
    [
      'numbers and plain words bare',
      { services: 3, node: 'n1' },
      '17:02:03.123 INFO  hello services=3 node=n1\n',
    ],
    ['blanks in quotes', { why: 'no route' }, '17:02:03.123 INFO  hello why="no route"\n'],
    ['empty text in quotes', { zone: '' }, '17:02:03.123 INFO  hello zone=""\n'],
    ['a list with commas', { services: ['a/b', 'c/d'] }, '17:02:03.123 INFO  hello services=a/b,c/d\n'],
    ['nested values as JSON', { sizes: { flows4: 1 } }, '17:02:03.123 INFO  hello sizes={"flows4":1}\n'],
    [
      'an error by its message',
      { err: { type: 'Error', message: 'it broke', stack: 'x' } },
      '17:02:03.123 INFO  hello err="it broke"\n',
    ],
  ]
  for (const [name, fields, text] of cases) {
    it(`prints ${name}`, () => {
      assert.equal(textLine({ level: 'info', ts: at, msg: 'hello', ...fields }), text)
    })
  }

  it('aligns the levels', () => {
    const lines = linesOf({ format: 'text', verbosity: 0 }, (log) => {
      log.info('one')
      log.error('two', { err: new Error('it broke') })
    })
    assert.match(lines[0] ?? '', /^\d\d:\d\d:\d\d\.\d{3} INFO {2}one\n$/)
    assert.match(lines[1] ?? '', /^\d\d:\d\d:\d\d\.\d{3} ERROR two err="it broke"\n$/)
  })
})

describe('the JSON format', () => {
  it('has a time, a level in words and the fields, and the stack of an error', () => {
    const [line = ''] = linesOf({ format: 'json', verbosity: 0 }, (log) =>
      log.warn('hello', { service: 'default/web', err: new Error('it broke') }),
    )
    const record = JSON.parse(line)
    assert.match(record.ts, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    assert.equal(record.level, 'warn')
    assert.equal(record.msg, 'hello')
    assert.equal(record.service, 'default/web')
    assert.equal(record.err.message, 'it broke')
    assert.match(record.err.stack, /log\.test\.ts/)
  })
})

describe('equal warnings and errors', () => {
  it('are shown three times a minute, then counted; others are not touched', () => {
    const lines: string[] = []
    let nowMs = 0
    const log = createLog({
      format: 'json',
      verbosity: 0,
      write: (line) => lines.push(line),
      nowMs: () => nowMs,
    })
    const say = () => {
      log.error('it failed', { err: new Error('full'), retryInMs: nowMs })
      log.error('it failed', { err: new Error('empty') })
      log.info('so it is')
    }
    for (; nowMs < 61_000; nowMs += 1000) say()
    const records = lines.map((line) => JSON.parse(line))
    const of = (message: string) => records.filter(({ err }) => err?.message === message)
    assert.deepEqual(
      of('full').map(({ repeated }) => repeated),
      [undefined, undefined, undefined, 57],
    )
    assert.equal(of('empty').length, 4)
    assert.equal(records.filter(({ msg }) => msg === 'so it is').length, 61)
  })
})

describe('the verbosity', () => {
  it("is klog's", () => {
    assert.deepEqual([0, 2, 3, 4, 5, 10].map(levelOf), ['info', 'info', 'debug', 'debug', 'trace', 'trace'])
  })
  it('hides what is below it', () => {
    const say = (log: ReturnType<typeof createLog>) => {
      log.debug('debug')
      log.info('info')
    }
    assert.equal(linesOf({ format: 'json', verbosity: 2 }, say).length, 1)
    assert.equal(linesOf({ format: 'json', verbosity: 3 }, say).length, 2)
  })
})
