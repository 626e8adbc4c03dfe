import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CommandResult } from '../netfilter/command.ts'
import { LOCALNET_NOTE, MARKER, ROUTE_LOCALNET } from './canary.ts'
import { type IptablesDataplaneOptions, NoIptablesError } from './dataplane.ts'
import { fakeSysctls, makeSubject, stateOf } from './dataplane-kit.ts'
import { FakeIptables, type FakeIptablesOptions } from './iptables.fake.ts'
import { JUMP_RULES } from './jump-rules.ts'
import { removeServiceRules } from './removal.ts'
import { readSave } from './saved.ts'

const WEB = { name: 'web', endpoints: ['10.244.1.2', '10.244.2.2'] }
const DNS = { name: 'dns', clusterIPs: ['10.96.0.20'], endpoints: ['10.244.1.3'] }
const KEY = 't/web'

const REFUSED: CommandResult = { code: 1, stdout: '', stderr: 'iptables-restore: line 2 failed' }

function setUp(options: Partial<IptablesDataplaneOptions> & { fake?: FakeIptablesOptions } = {}) {
  const { fake, ...rest } = options
  const iptables = new FakeIptables(fake)
  const values: Record<string, string> = { [ROUTE_LOCALNET]: '0' }
  const sysctls = fakeSysctls(values)
  const openNetfilter = () => ({ request: async () => [], close: () => undefined })
  const kernel = { run: iptables.run, sysctls, openNetfilter }
  return {
    ...makeSubject(kernel, rest),
    kernel,
    iptables,
    sysctls: values,
    again: () => makeSubject(kernel, rest),
  }
}

/** The names of chains of service ports in a table nat. */
function portChains(iptables: FakeIptables, command = 'iptables-nft'): readonly string[] {
  const chains = readSave(iptables.saved(command, 'nat')).get('nat')?.chains.keys() ?? []
  return [...chains].filter((chain) => /^KUBE-(?:SVC|SEP)/.test(chain))
}

/** Refuses restores of a family's rules of services, while `isRefusing`. */
function refusing(iptables: FakeIptables, command: string) {
  const state = { isRefusing: true }
  iptables.intercept = ([program]) =>
    state.isRefusing && program === `${command}-restore` ? REFUSED : undefined
  return state
}

test('where no sysctl may be written, the rules are, and it is said what is lacking, once', async () => {
  const sysctls = {
    read: () => '0',
    write: () => {
      throw new Error('EROFS')
    },
  }
  const { dataplane, iptables, lines } = setUp({ sysctls })
  await dataplane.start()
  const { failed } = await dataplane.sync(stateOf(WEB), undefined)
  assert.deepEqual(failed, [])
  assert.equal(portChains(iptables).length, 3)
  await dataplane.sync(stateOf(WEB, DNS), undefined)
  const warnings = lines.filter((line) => line.startsWith('warn'))
  assert.equal(warnings.length, 1)
  assert.match(
    warnings.join(),
    /^warn cannot set the sysctl net\.ipv4\.conf\.all\.route_localnet: .*127\.0\.0\.1.*: Error: EROFS$/,
  )
})

describe('a start', () => {
  test('touches no chain of services, and leaves nothing of what it tried', async () => {
    const { dataplane, iptables, lines } = setUp()
    assert.deepEqual(await dataplane.start(), { adopted: false, services: 0, backends: 0 })
    assert.deepEqual(dataplane.families, ['ipv4', 'ipv6'])
    for (const table of ['filter', 'nat', 'mangle']) {
      assert.doesNotMatch(iptables.saved('iptables-nft', table), /KUBE|SLUICE/)
    }
    assert.deepEqual(lines, ['info iptables: flavour nft, what `iptables` is on this node'])
  })

  test('counts what an earlier run has left, and lets it serve', async () => {
    const { dataplane, iptables, again } = setUp()
    await dataplane.start()
    await dataplane.sync(stateOf(WEB, DNS), undefined)
    await dataplane.stop('leave')
    const before = iptables.saved('iptables-nft', 'nat')
    assert.deepEqual(await again().dataplane.start(), { adopted: true, services: 2, backends: 3 })
    assert.equal(iptables.saved('iptables-nft', 'nat'), before)
  })

  test('goes without a family whose rules are refused, and says why', async () => {
    const { dataplane, iptables, lines } = setUp()
    refusing(iptables, 'ip6tables-nft')
    await dataplane.start()
    assert.deepEqual(dataplane.families, ['ipv4'])
    assert.match(
      lines.at(-1) ?? '',
      /^warn the rules of ipv6 cannot be written.*`ip6tables-nft-restore.*:SLUICE-PROBE/s,
    )
  })

  test('takes the other flavour where the kernel prints the one but takes no rules of it', async () => {
    const { dataplane, iptables, lines } = setUp()
    iptables.intercept = ([program = '']) => (program.endsWith('-nft-restore') ? REFUSED : undefined)
    await dataplane.start()
    assert.equal(dataplane.flavour, 'legacy')
    assert.deepEqual([dataplane.families, dataplane.refused.size], [['ipv4', 'ipv6'], 0])
    assert.match(
      lines.at(-1) ?? '',
      /^warn iptables: the kernel takes no rules of flavour nft, and legacy is/,
    )
    await dataplane.sync(stateOf(WEB), undefined)
    assert.equal(portChains(iptables, 'iptables-legacy').length, 3)
  })

  test('takes no other flavour than the one that was asked for, nor because a lock is held', async () => {
    const asked = setUp({ flavour: 'nft' })
    asked.iptables.intercept = ([program = '']) => (program.endsWith('-nft-restore') ? REFUSED : undefined)
    await assert.rejects(asked.dataplane.start(), NoIptablesError)
    const locked = setUp({ signal: AbortSignal.abort() })
    const held = { code: 4, stdout: '', stderr: 'Another app is currently holding the xtables lock.' }
    locked.iptables.intercept = ([program = '']) => (program.endsWith('-nft-restore') ? held : undefined)
    await assert.rejects(locked.dataplane.start(), /xtables lock/)
  })

  test('fails where no family can be served', async () => {
    const { dataplane, iptables } = setUp()
    iptables.intercept = ([program = '']) => (program.endsWith('-restore') ? REFUSED : undefined)
    await assert.rejects(dataplane.start(), NoIptablesError)
    await assert.rejects(setUp({ fake: { flavours: [] } }).dataplane.start(), NoIptablesError)
  })
})

describe('a sync', () => {
  test('writes all rules and what leads to them, then only what changes', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    const first = await dataplane.sync(stateOf(WEB, DNS), undefined)
    assert.deepEqual(first.failed, [])
    for (const command of ['iptables-nft', 'ip6tables-nft']) {
      for (const { table, base, target } of JUMP_RULES) {
        const rules = readSave(iptables.saved(command, table)).get(table)?.chains.get(base)
        assert.equal(rules?.filter((rule) => rule.endsWith(`-j ${target}`)).length, 1, `${base} ${target}`)
      }
    }
    iptables.restored.length = 0
    const report = await dataplane.sync(stateOf({ ...WEB, endpoints: ['10.244.1.2'] }, DNS), new Set([KEY]))
    assert.equal(report.deleted, 1)
    assert.ok(report.unchanged > 0)
    assert.equal(iptables.restored.length, 1, 'IPv6 has nothing to do with it')
    assert.equal(portChains(iptables).length, 4)
    const held = iptables.saved('iptables-nft', 'nat').match(/^-A KUBE/gm)
    assert.equal(
      dataplane.counts().get('ipv4')?.rules.nat,
      held?.length,
      'those that were not written are counted too',
    )
  })

  test('of everything puts back the jump that somebody took, and no other', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    await dataplane.sync(stateOf(WEB), undefined)
    const before = iptables.saved('iptables-nft', 'nat')
    const [jump = ''] = /-A PREROUTING .*/.exec(before) ?? []
    await iptables.run(['iptables-nft-restore', '--noflush'], `*nat\n${jump.replace('-A', '-D')}\nCOMMIT\n`)
    await dataplane.sync(stateOf(WEB), undefined)
    assert.equal(iptables.saved('iptables-nft', 'nat'), before)
  })

  test('of everything puts back what somebody took from chains that all share; one of other endpoints does not look there', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    await dataplane.sync(stateOf(WEB), undefined)
    const before = iptables.saved('iptables-nft', 'nat')
    const [rule = ''] = /-A KUBE-SERVICES .*-j KUBE-SVC-.*/.exec(before) ?? []
    const others = stateOf({ ...WEB, endpoints: ['10.244.1.2'] })
    await iptables.run(['iptables-nft-restore', '--noflush'], `*nat\n${rule.replace('-A', '-D')}\nCOMMIT\n`)
    await dataplane.sync(others, new Set([KEY]))
    assert.ok(!iptables.saved('iptables-nft', 'nat').includes(rule))
    await dataplane.sync(others, undefined)
    assert.ok(iptables.saved('iptables-nft', 'nat').includes(rule))
  })

  test('SYN-06: one that was to write changes and failed is counted, leaves what was there, and is followed by one of everything', async () => {
    const { dataplane, iptables } = setUp({ families: ['ipv4'] })
    await dataplane.start()
    await dataplane.sync(stateOf(WEB), undefined)
    const before = iptables.saved('iptables-nft', 'nat')
    const state = refusing(iptables, 'iptables-nft')
    const desired = stateOf({ ...WEB, endpoints: ['10.244.9.9'] })
    await assert.rejects(dataplane.sync(desired, new Set([KEY])), /line 2 failed\n {2}1: \*nat\n> 2: :KUBE/)
    assert.equal(iptables.saved('iptables-nft', 'nat'), before)
    const counts = () => dataplane.counts().get('ipv4')
    assert.equal(counts()?.partialFailures, 1)
    assert.equal(counts()?.failures, 1)
    await assert.rejects(dataplane.sync(desired, undefined))
    assert.equal(counts()?.partialFailures, 1, 'the second was no partial one')
    assert.equal(counts()?.failures, 2)

    state.isRefusing = false
    iptables.calls.length = 0
    // Even if it is told of other changes alone.
    await dataplane.sync(desired, new Set())
    assert.ok(iptables.calls.includes('iptables-nft-save -t nat'), 'it looked at everything')
    assert.equal(portChains(iptables).length, 2)
    assert.match(iptables.saved('iptables-nft', 'nat'), /10\.244\.9\.9:8080/)
  })

  test('that fails in one family is done in the other, and is told', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    refusing(iptables, 'iptables-nft')
    const { failed, written, isLate } = await dataplane.sync(stateOf(WEB), undefined)
    assert.deepEqual([failed.length, isLate], [1, true])
    assert.match(failed[0] ?? '', /^ipv4: `iptables-nft-restore/)
    assert.ok(written > 0)
  })
})

describe('somebody flushes all rules', () => {
  test('and it is noticed, and repaired', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    assert.equal(await dataplane.isFlushed(), false, 'nothing was ever written')
    await dataplane.sync(stateOf(WEB), undefined)
    const tables = () => ['filter', 'nat', 'mangle'].map((table) => iptables.saved('iptables-nft', table))
    const before = tables()
    assert.equal(await dataplane.isFlushed(), false)
    iptables.flush()
    assert.equal(await dataplane.isFlushed(), true)
    await dataplane.sync(stateOf(WEB), new Set())
    assert.deepEqual(tables().sort(), before.sort())
    assert.equal(await dataplane.isFlushed(), false)
  })

  for (const moment of ['save -t nat', 'save -t filter', 'save -t mangle', 'restore']) {
    test(`while everything is being written, before ${moment}: it is noticed all the same`, async () => {
      const { dataplane, iptables } = setUp()
      await dataplane.start()
      await dataplane.sync(stateOf(WEB), undefined)
      const saved = () => ['filter', 'nat', 'mangle'].map((table) => iptables.saved('iptables-nft', table))
      const before = saved()
      let isOver = false
      iptables.intercept = (argv) => {
        if (!isOver && argv.join(' ').startsWith(`iptables-nft-${moment}`)) {
          isOver = true
          iptables.flush()
        }
        return undefined
      }
      await dataplane.sync(stateOf(WEB), undefined)
      assert.ok(isOver)
      if (await dataplane.isFlushed()) await dataplane.sync(stateOf(WEB), new Set())
      assert.deepEqual(saved().map(sortedLines), before.map(sortedLines))
    })
  }

  test('a lock that is held is no flush', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    await dataplane.sync(stateOf(WEB), undefined)
    iptables.isLocked = true
    await assert.rejects(dataplane.isFlushed(), /holding the xtables lock/)
  })
})

function sortedLines(saved: string): readonly string[] {
  return saved.split('\n').sort()
}

describe('the other flavour', () => {
  test('B54: what an earlier run wrote there goes once the rules are written in the flavour of now', async () => {
    const { dataplane, iptables, kernel, lines } = setUp({ flavour: 'nft' })
    const former = makeSubject(kernel, { flavour: 'legacy' })
    await former.dataplane.start()
    await former.dataplane.sync(stateOf(WEB), undefined)
    assert.equal(portChains(iptables, 'iptables-legacy').length, 3)
    await dataplane.start()
    assert.equal(portChains(iptables, 'iptables-legacy').length, 3, 'it serves until the first sync')
    await dataplane.sync(stateOf(WEB), undefined)
    for (const table of ['filter', 'nat', 'mangle']) {
      assert.doesNotMatch(iptables.saved('iptables-legacy', table), /KUBE|SLUICE/)
    }
    assert.equal(portChains(iptables).length, 3)
    assert.ok(
      lines.includes(
        'info removed what an earlier run had written in the other flavour: iptables-legacy chain KUBE-SERVICES in nat',
      ),
    )
    // What was turned on for it is needed still, and goes with the last of it.
    assert.equal(kernel.sysctls.read(ROUTE_LOCALNET), '1')
    await dataplane.stop('remove')
    assert.equal(kernel.sysctls.read(ROUTE_LOCALNET), '0')
  })

  test("B54: a kube-proxy's rules there are told of, and stay", async () => {
    const { dataplane, iptables, lines } = setUp({ flavour: 'nft' })
    const text = '*nat\n:KUBE-SERVICES - [0:0]\n-I PREROUTING 1 -j KUBE-SERVICES\nCOMMIT\n'
    await iptables.run(['iptables-legacy-restore', '--noflush'], text)
    await dataplane.start()
    await dataplane.sync(stateOf(WEB), undefined)
    await dataplane.sync(stateOf(WEB), undefined)
    assert.equal(
      lines.filter((line) => line.startsWith('warn there are rules of a kube-proxy in iptables-legacy'))
        .length,
      1,
    )
    assert.match(iptables.saved('iptables-legacy', 'nat'), /-A PREROUTING -j KUBE-SERVICES/)
  })
})

describe('node ports', () => {
  const last = /nodeports; NOTE: .*/g

  test('at certain addresses are asked for at these, and never at ::1', async () => {
    const { dataplane, iptables } = setUp()
    await dataplane.start()
    const addresses = [
      { address: '192.168.1.11', nodePort: true },
      { address: '10.0.0.1', nodePort: false },
      { address: '::1', nodePort: true },
      { address: 'fd00::11', nodePort: true },
    ]
    assert.equal(dataplane.setNodeAddresses(addresses, new Set()), true)
    assert.equal(dataplane.setNodeAddresses([...addresses], new Set()), false)
    await dataplane.sync(stateOf(WEB), undefined)
    const rules = (command: string) =>
      iptables
        .saved(command, 'nat')
        .match(last)
        ?.map((text) => text.split('" ')[1])
    assert.deepEqual(rules('iptables-nft'), ['-d 192.168.1.11 -j KUBE-NODEPORTS'])
    assert.deepEqual(rules('ip6tables-nft'), ['-d fd00::11 -j KUBE-NODEPORTS'])

    assert.equal(dataplane.setNodeAddresses(addresses, new Set(['ipv6'])), true)
    iptables.restored.length = 0
    await dataplane.sync(stateOf(WEB), new Set())
    assert.match(rules('ip6tables-nft')?.[0] ?? '', /^-m addrtype --dst-type LOCAL/)
  })

  test('whose addresses change while rules are being written are written right after', async () => {
    const { dataplane, iptables } = setUp({ families: ['ipv4'] })
    await dataplane.start()
    const at = (address: string) => dataplane.setNodeAddresses([{ address, nodePort: true }], new Set())
    at('192.168.1.11')
    await dataplane.sync(stateOf(WEB), undefined)
    iptables.intercept = ([program = '']) => {
      if (program === 'iptables-nft-restore') at('192.168.1.12')
      return undefined
    }
    await dataplane.sync(stateOf({ ...WEB, endpoints: ['10.244.1.2'] }), new Set([KEY]))
    await dataplane.sync(stateOf({ ...WEB, endpoints: ['10.244.1.2'] }), new Set())
    assert.match(iptables.saved('iptables-nft', 'nat'), / -d 192\.168\.1\.12 -j KUBE-NODEPORTS/)
  })

  test('at 127.0.0.1 need a sysctl, which is turned on behind the rule that guards it, and off again', async () => {
    const { dataplane, iptables, sysctls } = setUp()
    await dataplane.start()
    assert.equal(sysctls[ROUTE_LOCALNET], '0')
    await dataplane.sync(stateOf(WEB), undefined)
    assert.equal(sysctls[ROUTE_LOCALNET], '1')
    const note = `-A ${MARKER} -m comment --comment "${LOCALNET_NOTE.at(-1)}"`
    assert.match(iptables.saved('iptables-nft', 'mangle'), new RegExp(note))
    await dataplane.sync(stateOf(WEB), undefined)
    assert.match(iptables.saved('iptables-nft', 'mangle'), new RegExp(note))
    await dataplane.stop('remove')
    assert.equal(sysctls[ROUTE_LOCALNET], '0')
  })

  test('a sysctl that was on stays on; one that is not needed is left alone', async () => {
    const on = setUp()
    on.sysctls[ROUTE_LOCALNET] = '1'
    await on.dataplane.start()
    await on.dataplane.sync(stateOf(WEB), undefined)
    await on.dataplane.stop('remove')
    assert.equal(on.sysctls[ROUTE_LOCALNET], '1')

    const without = setUp({ localhostNodePorts: false })
    await without.dataplane.start()
    await without.dataplane.sync(stateOf(WEB), undefined)
    assert.equal(without.sysctls[ROUTE_LOCALNET], '0')
  })
})

describe('a removal', () => {
  const kubelet = `*mangle
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 -j DROP
-I INPUT 1 -j KUBE-FIREWALL
-A FORWARD -j ACCEPT
COMMIT
`
  /** What is there, table by table, without those in which nothing is. */
  const content = (iptables: FakeIptables) =>
    ['filter', 'nat', 'mangle'].map((table) =>
      iptables.saved('iptables-nft', table).replaceAll(/\[.*\]/g, ''),
    )

  test('leaves nothing of ours, and all of others, and names what it removed', async () => {
    const { dataplane, iptables, kernel } = setUp({ families: ['ipv4'] })
    await dataplane.start()
    await iptables.run(['iptables-nft-restore', '--noflush'], '*filter\n-A FORWARD -j ACCEPT\nCOMMIT\n')
    const before = content(iptables)
    await dataplane.sync(stateOf(WEB), undefined)
    await iptables.run(['iptables-nft', '-t', 'nat', '-A', 'OUTPUT', '-g', 'KUBE-SERVICES'])
    const removed = await removeServiceRules({ whose: 'ours', ...kernel })
    assert.deepEqual(
      content(iptables).filter((text) => !text.startsWith('*mangle')),
      before.filter((text) => !text.startsWith('*mangle')),
    )
    assert.doesNotMatch(content(iptables).join(), /KUBE|SLUICE/)
    assert.deepEqual(removed, [
      `sysctl ${ROUTE_LOCALNET}: 0 again`,
      'iptables-nft chain KUBE-SERVICES in nat',
      'iptables-nft chain KUBE-NODEPORTS in nat',
      'iptables-nft chain KUBE-POSTROUTING in nat',
      'iptables-nft chain KUBE-MARK-MASQ in nat',
      'iptables-nft chain KUBE-PROXY-CANARY in nat',
      'iptables-nft chains of service ports in nat (KUBE-SVC-… and others): 3',
      'iptables-nft chain KUBE-SERVICES in filter',
      'iptables-nft chain KUBE-EXTERNAL-SERVICES in filter',
      'iptables-nft chain KUBE-FORWARD in filter',
      'iptables-nft chain KUBE-NODEPORTS in filter',
      'iptables-nft chain KUBE-PROXY-FIREWALL in filter',
      'iptables-nft chain KUBE-FIREWALL in filter',
      'iptables-nft chain KUBE-PROXY-CANARY in filter',
      'iptables-nft chain KUBE-PROXY-CANARY in mangle',
      'iptables-nft chain SLUICE-CANARY in mangle',
    ])
    assert.deepEqual(await removeServiceRules({ whose: 'ours', ...kernel }), [])
  })

  test("leaves the kubelet's chains, and KUBE-FIREWALL where there is a kubelet", async () => {
    const { dataplane, iptables, kernel } = setUp({ families: ['ipv4'] })
    await iptables.run(['iptables-nft-restore', '--noflush'], kubelet)
    await dataplane.start()
    await dataplane.sync(stateOf(WEB), undefined)
    await removeServiceRules({ whose: 'ours', ...kernel })
    const all = content(iptables).join('\n')
    for (const chain of ['KUBE-KUBELET-CANARY', 'KUBE-IPTABLES-HINT', 'KUBE-FIREWALL'])
      assert.match(all, new RegExp(`:${chain} `))
    assert.match(all, /-A INPUT -j KUBE-FIREWALL/)
    assert.doesNotMatch(all, /KUBE-SERVICES|CANARY - \[0:0\]\n:SLUICE/)
  })

  test("of ours leaves a kube-proxy's rules alone; that of anyone's takes them, those of former releases too", async () => {
    const { iptables, kernel } = setUp()
    const text = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-XLB-FW5UZ6GTZPQW5PVU - [0:0]
:KUBE-MARK-DROP - [0:0]
-A KUBE-XLB-FW5UZ6GTZPQW5PVU -j KUBE-MARK-DROP
-I PREROUTING 1 -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
`
    await iptables.run(['iptables-legacy-restore', '--noflush'], text)
    assert.deepEqual(await removeServiceRules({ whose: 'ours', ...kernel }), [])
    assert.match(iptables.saved('iptables-legacy', 'nat'), /KUBE-SERVICES/)
    assert.equal((await removeServiceRules({ whose: 'kube-proxys', ...kernel })).length, 3)
    assert.doesNotMatch(iptables.saved('iptables-legacy', 'nat'), /KUBE/)
  })
})
