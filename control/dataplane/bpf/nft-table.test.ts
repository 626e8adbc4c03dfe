import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { fixedChains, masqueradePorts, otherChains, tableDifferences, tableText } from './nft-table.ts'

const marks = { masquerade: 1 << 14, accept: 1 << 13 }
const ports = { first: 1024, last: 29_999 }

test('the table replaces an older one in one transaction, and clears the mark before it masquerades', () => {
  assert.equal(
    tableText(fixedChains(marks, ports)),
    `add table inet sluice
delete table inet sluice
table inet sluice {
  chain nat_postrouting {
    type nat hook postrouting priority 99; policy accept;
    meta mark & 0x00004000 == 0 return comment "not marked 0x00004000"
    meta mark set meta mark & 0xffffbfff comment "clear 0x00004000"
    meta l4proto { tcp, udp, sctp } masquerade to :1024-29999 fully-random comment "masquerade to ports 1024-29999"
  }

  chain unmark_postrouting {
    type filter hook postrouting priority 110; policy accept;
    meta mark & 0x00004000 != 0 meta mark set meta mark & 0xffffbfff comment "clear 0x00004000"
  }

  chain late_input {
    type filter hook input priority -1; policy accept;
    meta mark & 0x00002000 != 0 ct state invalid drop comment "invalid, marked 0x00002000"
  }
}
`,
  )
})

test('bit 31 is a mask like the others', () => {
  assert.match(
    tableText(fixedChains({ masquerade: 1 << 31, accept: 1 }, ports)),
    /meta mark & 0x80000000 == 0 return/,
  )
  assert.match(
    tableText(fixedChains({ masquerade: 1 << 31, accept: 1 }, ports)),
    /meta mark set meta mark & 0x7fffffff /,
  )
})

describe('masqueraded connections keep clear of the node ports', () => {
  const rows: readonly [string, [number, number], [number, number]][] = [
    ['the default range', [30_000, 32_767], [1024, 29_999]],
    ['a low range leaves more above', [2000, 9999], [10_000, 60_999]],
    ['a range below the unprivileged ports', [1, 1023], [1024, 60_999]],
    ['a range that reaches into the ports for collisions', [40_000, 65_535], [1024, 39_999]],
    ['a range above all of it', [61_000, 65_535], [1024, 60_999]],
  ]
  for (const [name, [first, last], [wantFirst, wantLast]] of rows) {
    test(name, () => {
      assert.deepEqual(masqueradePorts({ first, last }), { first: wantFirst, last: wantLast })
    })
  }
})

describe('what differs from the table that should be there', () => {
  const chain = (name: string, type: string, prio: number, hook = 'postrouting'): object => ({
    chain: { family: 'inet', table: 'sluice', name, type, hook, prio, policy: 'accept' },
  })
  const rule = (name: string, comment?: string): object => ({
    rule: { family: 'inet', table: 'sluice', chain: name, comment, expr: [] },
  })
  const nat = [
    rule('nat_postrouting', 'not marked 0x00004000'),
    rule('nat_postrouting', 'clear 0x00004000'),
    rule('nat_postrouting', 'masquerade to ports 1024-29999'),
  ]
  const chains = [
    chain('nat_postrouting', 'nat', 99),
    chain('unmark_postrouting', 'filter', 110),
    chain('late_input', 'filter', -1, 'input'),
  ]
  const others = [
    rule('unmark_postrouting', 'clear 0x00004000'),
    rule('late_input', 'invalid, marked 0x00002000'),
  ]
  const rows: readonly [string, object[], string[]][] = [
    ['nothing, when all is there', [...chains, ...nat, ...others], []],
    [
      'chains flushed',
      chains,
      ['nat_postrouting', 'unmark_postrouting', 'late_input'].map(
        (name) => `the rules of chain ${name} are others`,
      ),
    ],
    [
      'a rule too many',
      [...chains, ...nat, rule('nat_postrouting'), ...others],
      ['the rules of chain nat_postrouting are others'],
    ],
    [
      'the order of the rules',
      [...chains, ...nat.toReversed(), ...others],
      ['the rules of chain nat_postrouting are others'],
    ],
    [
      'the priority of a chain',
      [chain('nat_postrouting', 'nat', 100), ...chains.slice(1), ...nat, ...others],
      ['chain nat_postrouting is at another hook'],
    ],
    [
      'the hook of a chain',
      [...chains.slice(0, 2), chain('late_input', 'filter', -1, 'forward'), ...nat, ...others],
      ['chain late_input is at another hook'],
    ],
    [
      'an empty table',
      [{ table: { family: 'inet', name: 'sluice' } }],
      ['nat_postrouting', 'unmark_postrouting', 'late_input'].map((name) => `chain ${name} is missing`),
    ],
  ]
  for (const [name, nftables, differences] of rows) {
    test(name, () => {
      const listing = JSON.stringify({ nftables: [{ metainfo: { version: '1.0.6' } }, ...nftables] })
      assert.deepEqual(tableDifferences(listing, fixedChains(marks, ports)), differences)
    })
  }

  test('other marks or ports than those of the table', () => {
    const listing = JSON.stringify({ nftables: [...chains, ...nat, ...others] })
    assert.equal(tableDifferences(listing, fixedChains({ ...marks, masquerade: 1 << 15 }, ports)).length, 2)
    assert.equal(tableDifferences(listing, fixedChains({ ...marks, accept: 1 << 15 }, ports)).length, 1)
    assert.equal(tableDifferences(listing, fixedChains(marks, { first: 1024, last: 2000 })).length, 1)
  })

  test('chains that are none of ours', () => {
    const listing = JSON.stringify({ nftables: [...chains, chain('local_output', 'nat', -101, 'output')] })
    assert.deepEqual(otherChains(listing, fixedChains(marks, ports)), ['local_output'])
    assert.deepEqual(otherChains(JSON.stringify({ nftables: chains }), fixedChains(marks, ports)), [])
  })

  for (const answer of ['', 'not JSON', '[]', '{"nftables": 3}', '{"nftables": [null, 1, {"rule": null}]}']) {
    test(`an answer that makes no sense counts as nothing there: ${JSON.stringify(answer)}`, () => {
      assert.equal(tableDifferences(answer, fixedChains(marks, ports)).length, 3)
    })
  }
})
