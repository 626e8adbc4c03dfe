import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunCommand } from '../dataplane/netfilter/command.ts'
import { warnOfForeignRules } from './foreign-rules.ts'

const CHAINS = `table inet mine {
\tchain pre {
\t\ttype filter hook prerouting priority -300; policy accept;
\t}
}
`
const SERVED = {
  nodeAddresses: new Set(['192.168.1.11']),
  nodePorts: { first: 30_000, last: 32_767 },
  frontends: [],
}

function nodeWith(rules: readonly string[]): RunCommand {
  return async (argv) => {
    if (argv[0] !== 'nft') return { code: undefined, stdout: '', stderr: 'ENOENT' }
    const stdout = argv.at(-1) === 'chains' ? CHAINS : rules.map((rule) => `\t\t${rule}\n`).join('')
    return { code: 0, stdout, stderr: '' }
  }
}

async function warningsOf(run: RunCommand) {
  const warnings: { message: string; fields: unknown }[] = []
  await warnOfForeignRules(SERVED, { warn: (message, fields) => warnings.push({ message, fields }) }, run)
  return warnings
}

test('a rule that will see less is named once, with its place', async () => {
  const warnings = await warningsOf(nodeWith(['ct state invalid drop', 'tcp dport 30080 drop']))
  assert.equal(warnings.length, 1)
  assert.match(warnings[0]?.message ?? '', /^a rule of others does not see packets to services any more/)
  const place = { tool: 'nft', family: 'inet', table: 'mine', chain: 'pre', rule: 'tcp dport 30080 drop' }
  assert.deepEqual(warnings[0]?.fields, place)
})

test('of many ten are named, and the others counted', async () => {
  const rules = Array.from({ length: 13 }, (_, i) => `tcp dport ${30_000 + i} drop`)
  const warnings = await warningsOf(nodeWith(rules))
  assert.equal(warnings.length, 11)
  assert.equal(warnings.at(-1)?.message, 'there are 3 more such rules of others: sluice probe names them all')
})

test('a node without tools has none', async () => {
  assert.deepEqual(await warningsOf(async () => ({ code: undefined, stdout: '', stderr: '' })), [])
})
