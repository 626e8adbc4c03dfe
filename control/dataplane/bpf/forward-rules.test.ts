import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { forwardCouldDrop, forwardRules, holdsChain, restoreText } from './forward-rules.ts'

const ACCEPT_MARK = 1 << 13

test('the chain is filled anew in one transaction, with the jump only where it is missing', () => {
  const rules = `-A SLUICE-FORWARD -m comment --comment "sluice: balanced" -m mark --mark 0x00002000/0x00002000 -j ACCEPT
-A SLUICE-FORWARD -m comment --comment "sluice: answers" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
`
  assert.equal(restoreText(ACCEPT_MARK, false), `*filter\n:SLUICE-FORWARD - [0:0]\n${rules}`)
  assert.equal(
    restoreText(ACCEPT_MARK, true),
    `*filter
:SLUICE-FORWARD - [0:0]
-I FORWARD 1 -m comment --comment "sluice: before rules that would drop" -j SLUICE-FORWARD
${rules}`,
  )
})

test('the first rule that is checked is the jump', () => {
  assert.equal(forwardRules(ACCEPT_MARK)[0]?.[0], 'FORWARD')
})

describe('whether FORWARD could drop a packet', () => {
  const saved = (...lines: string[]): string =>
    ['# Generated', '*filter', ':INPUT DROP [0:0]', ...lines, '-A INPUT -j DROP', 'COMMIT', ''].join('\n')
  const rows: readonly [string, string, boolean][] = [
    ['no filter table at all', '*nat\n:FORWARD DROP [0:0]\nCOMMIT\n', false],
    ['nothing printed', '', false],
    ['policy ACCEPT, no rule', saved(':FORWARD ACCEPT [12:34]'), false],
    ['policy DROP', saved(':FORWARD DROP [0:0]'), true],
    ['any rule, for it may jump anywhere', saved(':FORWARD ACCEPT [0:0]', '-A FORWARD -j DOCKER-USER'), true],
    [
      'our own jump does not count',
      saved(':FORWARD ACCEPT [0:0]', '-A FORWARD -m comment --comment "x" -j SLUICE-FORWARD'),
      false,
    ],
    [
      'a chain of another table',
      `*mangle\n-A FORWARD -j DROP\nCOMMIT\n${saved(':FORWARD ACCEPT [0:0]')}`,
      false,
    ],
  ]
  for (const [name, text, expected] of rows) test(name, () => assert.equal(forwardCouldDrop(text), expected))
})

test('our chain is found by its declaration, not by a rule that names it', () => {
  assert.equal(holdsChain('*filter\n:SLUICE-FORWARD - [0:0]\nCOMMIT\n'), true)
  assert.equal(holdsChain('*filter\n:SLUICE-FORWARD-2 - [0:0]\n-A X -j SLUICE-FORWARD\nCOMMIT\n'), false)
})
