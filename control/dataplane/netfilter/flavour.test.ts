import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseFlavour } from './flavour.ts'

test('the flavour is what the version says', () => {
  assert.equal(parseFlavour('iptables v1.8.9 (nf_tables)\n'), 'nft')
  assert.equal(parseFlavour('iptables v1.8.9 (legacy)\n'), 'legacy')
  assert.equal(parseFlavour('iptables v1.6.1\n'), 'legacy')
})
