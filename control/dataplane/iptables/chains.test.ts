import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chainHash, isPortChain } from './chains.ts'

test('names of chains are hashes as kube-proxy makes them', () => {
  const vectors: readonly (readonly [text: string, digits: string])[] = [
    ['ns1/svc1:p80tcp', 'XPGD46QRK7WJZT7O'],
    ['ns1/svc1:p80tcp10.0.1.1:80', 'SNQ3ZNILQDEJNDQO'],
    ['ns2/svc2:p8080tcp', '2VJB64SDSIJUP5T6'],
    ['default/kubernetes:httpstcp', 'NPX46M4PTMTKRN6Y'],
  ]
  for (const [text, digits] of vectors) assert.equal(chainHash(text), digits, text)
})

test('chains of service ports are told from all others', () => {
  for (const kind of ['SVC', 'SVL', 'EXT', 'FW', 'SEP']) {
    assert.ok(isPortChain(`KUBE-${kind}-XPGD46QRK7WJZT7O`), kind)
  }
  for (const chain of ['KUBE-SERVICES', 'KUBE-FIREWALL', 'KUBE-FORWARD', 'CNI-KUBE-SVC-X', 'POSTROUTING']) {
    assert.ok(!isPortChain(chain), chain)
  }
})
