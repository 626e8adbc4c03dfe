/** A node that changes from one flavour of iptables to the other: rules of both are in force. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, describe, test } from 'node:test'
import { enterOwnNetwork } from '../../../tools/packets/own-network.ts'
import { type RunCommand, runCommand } from '../netfilter/command.ts'
import { type Flavour, otherFlavour } from '../netfilter/flavour.ts'
import { makeSubject, stateOf } from './dataplane-kit.ts'
import { removeServiceRules } from './removal.ts'

enterOwnNetwork(import.meta.filename)

const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}`))
after(() => rmSync(folder, { recursive: true }))

/** Legacy iptables with a lock of its own: others on this machine use theirs. */
const run: RunCommand = (argv, ...rest) =>
  runCommand(['env', `XTABLES_LOCKFILE=${join(folder, 'lock')}`, ...argv], ...rest)

const FORMER = { name: 'ipt', nodePort: 30_096, endpoints: ['198.18.1.5'] }
const LATTER = { ...FORMER, endpoints: ['198.18.1.6'] }

async function saved(flavour: Flavour): Promise<string> {
  const texts = [await run([`iptables-${flavour}-save`]), await run([`ip6tables-${flavour}-save`])]
  for (const { code, stderr } of texts) assert.equal(code, 0, stderr)
  return texts.map(({ stdout }) => stdout).join('')
}

async function restore(flavour: Flavour, text: string): Promise<void> {
  const { code, stderr } = await run([`iptables-${flavour}-restore`, '--noflush'], text)
  assert.equal(code, 0, stderr)
}

describe('B54: rules of a former run in the other flavour', () => {
  beforeEach(async () => {
    for (const flavour of ['nft', 'legacy'] as const) {
      for (const command of [`iptables-${flavour}`, `ip6tables-${flavour}`]) {
        const text = ['filter', 'nat', 'mangle'].map((table) => `*${table}\nCOMMIT\n`).join('')
        assert.equal((await run([`${command}-restore`], text)).code, 0)
      }
    }
  })

  for (const flavour of ['nft', 'legacy'] as const) {
    test(`go when those in ${flavour} are written, and not before; then no connection goes where nobody is`, async () => {
      const former = makeSubject({ run }, { flavour: otherFlavour(flavour) })
      await former.dataplane.start()
      await former.dataplane.sync(stateOf(FORMER), undefined)
      // The kubelet says what the node uses now, whatever `iptables` is in this image.
      await restore(flavour, '*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n')

      const latter = makeSubject({ run })
      await latter.dataplane.start()
      assert.equal(latter.dataplane.flavour, flavour)
      assert.match(
        await saved(otherFlavour(flavour)),
        /198\.18\.1\.5:8080/,
        'it serves until there is something else',
      )
      await latter.dataplane.sync(stateOf(LATTER), undefined)
      assert.doesNotMatch(await saved(otherFlavour(flavour)), /KUBE|SLUICE/)
      const now = await saved(flavour)
      assert.match(now, /198\.18\.1\.6:8080/)
      assert.doesNotMatch(now, /198\.18\.1\.5:8080/)
      await latter.dataplane.stop('remove')
      const kubelets = /^.*(?:KUBE-IPTABLES-HINT|KUBE-FIREWALL).*$/gm
      assert.doesNotMatch((await saved(flavour)).replaceAll(kubelets, ''), /KUBE|SLUICE/)
    })
  }

  test('do not make it the flavour of this node, however many they are', async () => {
    const former = makeSubject({ run }, { flavour: 'legacy' })
    await former.dataplane.start()
    await former.dataplane.sync(stateOf(FORMER), undefined)
    const { stdout } = await run(['iptables', '--version'])
    const latter = makeSubject({ run })
    await latter.dataplane.start()
    assert.equal(latter.dataplane.flavour, stdout.includes('nf_tables') ? 'nft' : 'legacy')
    await removeServiceRules({ whose: 'ours', run })
  })

  test('of a kube-proxy are told of, with how to remove them, and stay; what it left in ours is taken over', async () => {
    const theirs = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-OLDOLDOLDOLDOLDO - [0:0]
-A KUBE-SERVICES -d 198.19.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-OLDOLDOLDOLDOLDO
-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
`
    for (const flavour of ['nft', 'legacy'] as const) await restore(flavour, theirs)
    const { dataplane, lines } = makeSubject({ run }, { flavour: 'nft' })
    await dataplane.start()
    await dataplane.sync(stateOf(LATTER), undefined)
    const told = lines.filter((line) =>
      line.startsWith('warn there are rules of a kube-proxy in iptables-legacy'),
    )
    assert.equal(told.length, 1)
    assert.match(told[0] ?? '', /`sluice cleanup --kube-proxy` removes them/)
    assert.match(await saved('legacy'), /KUBE-SVC-OLDOLDOLDOLDOLDO/)
    const now = await saved('nft')
    assert.doesNotMatch(now, /OLDOLD/)
    assert.equal(now.match(/^-A PREROUTING .*-j KUBE-SERVICES$/gm)?.length, 2, 'one jump in each family')
    await dataplane.stop('remove')
  })
})
