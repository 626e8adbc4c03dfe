import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { conntrackOptions, DEFAULT_TIMEOUTS, flowTimeouts, parseTimeout } from './timeouts.ts'

describe('a duration as Go writes it', () => {
  const rows: [text: string, seconds: number][] = [
    ['24h', 86_400],
    ['24h0m0s', 86_400],
    ['1h30m', 5400],
    ['90s', 90],
    ['1.5m', 90],
    ['1500ms', 2],
    ['0', 0],
    ['0s', 0],
    ['0h0m0s', 0],
  ]
  for (const [text, seconds] of rows) it(text, () => assert.equal(parseTimeout(text), seconds))
  for (const text of ['', '24', 'h', '1d', '1h 30m', '-1s', '1h30', '999999999h']) {
    it(`(${JSON.stringify(text)} is none)`, () =>
      assert.throws(() => parseTimeout(text), {
        message: 'It takes a duration such as 24h, 1h30m or 90s.',
      }))
  }
})

describe('a zero', () => {
  const read = {
    conntrackTcpTimeoutEstablished: 0,
    conntrackTcpTimeoutCloseWait: 7,
    conntrackUdpTimeout: 0,
    conntrackUdpTimeoutStream: 8,
    handoverTimeout: 0,
  }
  it('is the usual for our flows', () => {
    assert.deepEqual(flowTimeouts(read), { ...DEFAULT_TIMEOUTS, tcpCloseWait: 7, udpStream: 8 })
  })
  it('asks the kernel for nothing', () => {
    const limits = { maxPerCore: 1, min: 2, tcpBeLiberal: true }
    const times = { tcpEstablished: 0, tcpCloseWait: 7, udp: 0, udpStream: 8 }
    assert.deepEqual(conntrackOptions(read, limits), { ...limits, ...times })
  })
})
