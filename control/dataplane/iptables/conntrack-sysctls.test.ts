import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setConntrackTimeouts } from './conntrack-sysctls.ts'
import type { Sysctls } from './sysctls.ts'

const ESTABLISHED = 'net.netfilter.nf_conntrack_tcp_timeout_established'
const CLOSE_WAIT = 'net.netfilter.nf_conntrack_tcp_timeout_close_wait'
const UDP = 'net.netfilter.nf_conntrack_udp_timeout'

const TIMEOUTS = { tcpEstablished: 86_400, tcpCloseWait: 3600, udp: undefined, udpStream: undefined }

function kernel(values: Readonly<Record<string, string>>, readOnly = false) {
  const held = new Map(Object.entries(values))
  const written: string[] = []
  const warnings: string[] = []
  const sysctls: Sysctls = {
    read: (name) => held.get(name),
    write: (name, value) => {
      if (readOnly) throw new Error('EROFS: read-only file system')
      held.set(name, value)
      written.push(`${name}=${value}`)
    },
  }
  const log = { warn: (message: string) => warnings.push(message) }
  return { held, written, warnings, set: () => setConntrackTimeouts(TIMEOUTS, sysctls, log) }
}

test('what is otherwise is set, what is not asked for is left alone', () => {
  const { held, written, set } = kernel({ [ESTABLISHED]: '432000', [CLOSE_WAIT]: '60', [UDP]: '30' })
  set()
  assert.deepEqual(written, [`${ESTABLISHED}=86400`, `${CLOSE_WAIT}=3600`])
  assert.equal(held.get(UDP), '30')
})

test('what is as it should be is not written', () => {
  const { written, set } = kernel({ [ESTABLISHED]: '86400', [CLOSE_WAIT]: '3600' }, true)
  set()
  assert.deepEqual(written, [])
})

test('what cannot be written is told of, each by name, and the rest is tried', () => {
  const { warnings, set } = kernel({ [ESTABLISHED]: '432000', [CLOSE_WAIT]: '60' }, true)
  set()
  assert.equal(warnings.length, 2)
  assert.match(warnings[1] ?? '', /tcp_timeout_close_wait to 3600/)
})
