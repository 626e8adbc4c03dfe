import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiRequest, Requests } from './requests.ts'

const request = (status: number): ApiRequest => ({ method: 'GET', host: 'h', status, durationMs: 1 })

test('who listens hears of those before, too, each once', () => {
  const requests = new Requests()
  const heard: (number | undefined)[] = []
  requests.made(request(1))
  requests.made(request(2))
  requests.listen(({ status }) => heard.push(status))
  requests.made(request(3))
  assert.deepEqual(heard, [1, 2, 3])
})
