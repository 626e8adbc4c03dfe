/** What the dataplane relies on in iptables: holds for the fake, and for both flavours of the real one. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Family } from '../../model/types.ts'
import type { RunCommand } from '../netfilter/command.ts'
import type { Flavour } from '../netfilter/flavour.ts'
import { type Iptables, IptablesError, openIptables } from './iptables.ts'

/** A place without rules, for one group of tests. */
export interface Place {
  readonly run: RunCommand
  readonly remove: () => void
}

export function iptablesContract(name: string, make: () => Place, family: Family, flavour: Flavour): void {
  describe(name, () => {
    let place: Place
    let iptables: Iptables

    before(async () => {
      place = make()
      const opened = await openIptables(family, flavour, { run: place.run, patienceMs: 0 })
      assert.ok(opened !== undefined, `${flavour} is not installed`)
      iptables = opened
    })
    after(() => place.remove())

    const rulesOf = (table: 'nat' | 'filter', chain: string) => rulesIn(iptables, table, chain)
    const rejectsAt = (text: string, line: RegExp) => rejects(iptables, text, line)

    test('a chain that is named is created, and emptied when it is named again; others stay', async () => {
      await iptables.restore('*nat\n:ONE - [0:0]\n:TWO - [0:0]\n-A ONE -j TWO\n-A TWO -j RETURN\nCOMMIT\n')
      await iptables.restore('*nat\n:ONE - [0:0]\n-A ONE -j RETURN\nCOMMIT\n')
      assert.deepEqual(await rulesOf('nat', 'ONE'), ['-j RETURN'])
      assert.deepEqual(await rulesOf('nat', 'TWO'), ['-j RETURN'])
    })

    test('what is there is found, and nothing else is', async () => {
      assert.equal(await iptables.hasChain('nat', 'ONE'), true)
      assert.equal(await iptables.hasChain('nat', 'NONE'), false)
      assert.equal(await iptables.hasChain('filter', 'ONE'), false)
      assert.equal(await iptables.hasRule('nat', ['ONE', '-j', 'RETURN']), true)
      assert.equal(await iptables.hasRule('nat', ['ONE', '-j', 'TWO']), false)
      assert.equal(await iptables.hasRule('nat', ['ONE', '-j', 'NONE']), false)
    })

    test('a line that is refused leaves its table as it was, those before it are written', async () => {
      const text = `*filter
:THREE - [0:0]
COMMIT
*nat
:ONE - [0:0]
:FOUR - [0:0]
-A NOWHERE -j RETURN
COMMIT
`
      await rejectsAt(text, /\n {2}\d: :FOUR - \[0:0\]\n. \d: -A NOWHERE -j RETURN\n/)
      assert.equal(await iptables.hasChain('filter', 'THREE'), true)
      assert.equal(await iptables.hasChain('nat', 'FOUR'), false)
      assert.deepEqual(await rulesOf('nat', 'ONE'), ['-j RETURN'])
    })

    test('rules with comments come in at the head, and go out as they were printed', async () => {
      const one = '-m comment --comment "the first one" -j ONE'
      const two = '-m comment --comment "the second one" -j TWO'
      await iptables.restore(`*nat\n-I OUTPUT 1 ${one}\n-I OUTPUT 1 ${two}\nCOMMIT\n`)
      assert.deepEqual(await rulesOf('nat', 'OUTPUT'), [two, one])
      const words = ['-m', 'comment', '--comment', 'the second one', '-j', 'TWO']
      assert.equal(await iptables.hasRule('nat', ['OUTPUT', ...words]), true)
      await iptables.restore(`*nat\n-D OUTPUT ${two}\nCOMMIT\n`)
      assert.deepEqual(await rulesOf('nat', 'OUTPUT'), [one])
    })

    test('a chain goes with its rules and the jumps to it in one transaction, and not while one jumps to it', async () => {
      await rejectsAt('*nat\n:ONE - [0:0]\n-X ONE\nCOMMIT\n', /-X ONE/)
      assert.deepEqual(await rulesOf('nat', 'ONE'), ['-j RETURN'])
      const [jump] = await rulesOf('nat', 'OUTPUT')
      await iptables.restore(`*nat\n:ONE - [0:0]\n-D OUTPUT ${jump}\n-X ONE\nCOMMIT\n`)
      assert.equal(await iptables.hasChain('nat', 'ONE'), false)
      assert.deepEqual(await rulesOf('nat', 'OUTPUT'), [])
    })

    test('a listing ahead of a restore changes nothing of it', async () => {
      await iptables.restore('*nat\n-S\n:FIVE - [0:0]\n:TWO - [0:0]\n-A TWO -j FIVE\nCOMMIT\n')
      assert.deepEqual(await rulesOf('nat', 'TWO'), ['-j FIVE'])
      await iptables.restore('*nat\n-S\n:TWO - [0:0]\n:FIVE - [0:0]\n-A TWO -j RETURN\n-X FIVE\nCOMMIT\n')
      assert.deepEqual(await rulesOf('nat', 'TWO'), ['-j RETURN'])
      assert.equal(await iptables.hasChain('nat', 'FIVE'), false)
    })

    test('all tables are printed together', async () => {
      const saved = await iptables.saveAll()
      assert.match(saved, /^\*filter$/m)
      assert.match(saved, /^:THREE - \[0:0\]$/m)
      assert.match(saved, /^\*nat$/m)
      assert.match(saved, /^:TWO - \[0:0\]$/m)
    })
  })
}

/** The rules of a chain as they are printed, without the name of the chain. */
async function rulesIn(
  iptables: Iptables,
  table: 'nat' | 'filter',
  chain: string,
): Promise<readonly string[]> {
  return (await iptables.save(table))
    .split('\n')
    .filter((line) => line.startsWith(`-A ${chain} `))
    .map((line) => line.slice(`-A ${chain} `.length))
}

/** A restore of this text is refused, and the error shows the line. */
function rejects(iptables: Iptables, text: string, line: RegExp): Promise<void> {
  return assert.rejects(iptables.restore(text), (error) => {
    assert.ok(error instanceof IptablesError)
    assert.equal(error.isBusy, false)
    assert.match(error.message, line)
    return true
  })
}
