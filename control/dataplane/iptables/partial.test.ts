import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { makeEndpoint, makeService, makeSlice } from '../../model/fixtures.ts'
import type { DesiredState } from '../../model/types.ts'
import { isPortChain } from './chains.ts'
import { renderings, steps } from './changes.fixture.ts'
import { FakeIptables } from './iptables.fake.ts'
import { RuleRenderer } from './rules.ts'
import { readSave } from './saved.ts'
import { desiredOf, FIRST, SETTINGS } from './test-kit.ts'

test('whatever the order of changes, the kernel ends with what one full update writes', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const { partial, full } = renderings(all)
      assert.deepEqual(await afterwards(partial), await afterwards([full]))
    }),
  )
})

async function afterwards(texts: readonly string[]): Promise<unknown> {
  const fake = new FakeIptables()
  for (const text of texts) {
    const { code, stderr } = await fake.run(['iptables-restore', '--noflush', '--counters'], text)
    assert.equal(code, 0, stderr)
  }
  return ['filter', 'nat'].map((table) => {
    const chains = readSave(fake.saved('iptables-nft', table)).get(table)?.chains ?? []
    return Object.fromEntries(chains)
  })
}

suite('a partial update', () => {
  const WEB = makeService()
  const API = makeService({ name: 'api', clusterIPs: ['10.96.0.2'] })
  const ofWeb = (...addresses: string[]) => makeSlice(addresses.map((address) => makeEndpoint(address)))
  const ofApi = makeSlice([makeEndpoint('10.244.2.1')], { name: 'api-a', serviceName: 'api' })

  /** What is written when the state before becomes the one after, in which `changed` is said to be another. */
  function update(before: DesiredState, after: DesiredState, changed: readonly string[]) {
    const renderer = new RuleRenderer(SETTINGS)
    renderer.render({ ...FIRST, desired: before })
    const base = { ...FIRST, desired: before, changed: new Set(changed) }
    return renderer.render({ ...FIRST, desired: after, base })
  }

  function portChains(text: string): readonly string[] {
    return [...text.matchAll(/^:(KUBE-(?:SVC|SVL|EXT|FW|SEP)-\w+)/gm)].map(([, chain = '']) => chain)
  }

  function sharedChains(text: string): readonly string[] {
    return [...text.matchAll(/^:(\S+)/gm)].flatMap(([, chain = '']) => (isPortChain(chain) ? [] : [chain]))
  }

  function removed(text: string): readonly string[] {
    return [...text.matchAll(/^-X (.*)$/gm)].map(([, chain = '']) => chain)
  }

  const web = desiredOf([WEB], [ofWeb('10.244.1.1')])
  const both = desiredOf([WEB, API], [ofWeb('10.244.1.1'), ofApi])

  test('SYN-01 an added service: its own chains, and those that all share', () => {
    const { text } = update(web, both, ['default/api'])
    assert.equal(portChains(text).length, 2)
    assert.match(text, /10\.244\.2\.1/)
    assert.doesNotMatch(text, /10\.244\.1\.1/)
    assert.match(text, /"default\/web cluster IP"/)
    assert.match(text, /-A KUBE-POSTROUTING /)
    assert.deepEqual(removed(text), [])
  })

  test('SYN-02 a deleted service: its chains are emptied and removed', () => {
    const { text, removed: count } = update(both, web, ['default/api'])
    assert.deepEqual(portChains(text).toSorted(), removed(text).toSorted())
    assert.equal(removed(text).length, 2)
    assert.equal(count, 2)
    assert.doesNotMatch(text, /default\/api/)
  })

  test('SYN-03 endpoints at last: rejected first, then balanced', () => {
    const none = desiredOf([WEB], [])
    assert.match(new RuleRenderer(SETTINGS).render({ ...FIRST, desired: none }).text, /-j REJECT/)
    const { text } = update(none, web, ['default/web'])
    assert.doesNotMatch(text, /REJECT/)
    assert.equal(portChains(text).length, 2)
  })

  test('SYN-04 an endpoint with another address: its chain replaces the old one; an added one takes half', () => {
    const moved = update(web, desiredOf([WEB], [ofWeb('10.244.1.9')]), ['default/web'])
    assert.equal(portChains(moved.text).length, 3)
    assert.equal(removed(moved.text).length, 1)
    const added = update(web, desiredOf([WEB], [ofWeb('10.244.1.1', '10.244.1.2')]), ['default/web'])
    assert.equal(portChains(added.text).length, 3)
    assert.deepEqual(removed(added.text), [])
    assert.match(added.text, /--probability 0\.5000000000 /)
    for (const { text } of [moved, added])
      assert.deepEqual(sharedChains(text), [], 'of the others nothing is written')
  })

  test('B35 sync time: a moved endpoint is as many lines among any number of services', () => {
    const lines = [2, 50, 100].map((count) => {
      const cluster = (address: string) => {
        const names = Array.from({ length: count }, (_, i) => `s${i}`)
        const services = names.map((name, i) => makeService({ name, clusterIPs: [`10.96.1.${i + 1}`] }))
        const slices = names.map((name, i) =>
          makeSlice([makeEndpoint(i === 0 ? address : `10.244.3.${i}`)], {
            name: `${name}-a`,
            serviceName: name,
          }),
        )
        return desiredOf(services, slices)
      }
      return update(cluster('10.244.1.1'), cluster('10.244.1.2'), ['default/s0']).text.split('\n').length
    })
    const [few = 0] = lines
    assert.ok(few > 1)
    assert.deepEqual(lines, [few, few, few])
  })

  test('SYN-05 nothing is another: nothing is written', () => {
    const { text, written, rules } = update(both, both, [])
    assert.equal(text, '')
    assert.deepEqual(written, { filter: 0, nat: 0 })
    assert.deepEqual(rules, new RuleRenderer(SETTINGS).render({ ...FIRST, desired: both }).rules)
  })

  suite('of what all services share: all or nothing', () => {
    const healthy = (port: number) =>
      desiredOf(
        [
          makeService({
            type: 'LoadBalancer',
            externalTrafficPolicy: 'Local',
            healthCheckNodePort: port,
            loadBalancerIngress: [{ ip: '203.0.113.1', ipMode: 'VIP' }],
          }),
        ],
        [ofWeb('10.244.1.1')],
      )
    const moved = desiredOf([makeService({ clusterIPs: ['10.96.0.7'] })], [ofWeb('10.244.1.1')])
    for (const [what, before, after, some] of [
      ['another address of a service', web, moved, /10\.96\.0\.7/],
      ['a service without endpoints', web, desiredOf([WEB], []), /-j REJECT/],
      ['another port for health checks', healthy(32_001), healthy(32_002), /--dport 32002 -j ACCEPT/],
    ] as const) {
      test(`all for ${what}`, () => {
        const { text } = update(before, after, ['default/web'])
        const full = new RuleRenderer(SETTINGS).render({ ...FIRST, desired: after })
        assert.deepEqual(sharedChains(text), sharedChains(full.text))
        assert.match(text, some)
      })
    }

    test('all for other addresses of node ports', () => {
      const renderer = new RuleRenderer(SETTINGS)
      const base = { ...FIRST, desired: both, changed: new Set<string>() }
      const { text } = renderer.render({ desired: both, base, nodePortAddresses: ['192.0.2.11'] })
      const full = renderer.render({ ...FIRST, desired: both, nodePortAddresses: ['192.0.2.11'] })
      assert.deepEqual(sharedChains(text), sharedChains(full.text))
      assert.deepEqual(portChains(text), [])
      assert.match(text, / -d 192\.0\.2\.11 -j KUBE-NODEPORTS/)
    })
  })

  test('SYN-08 the number of rules is that of all, whoever wrote them', () => {
    const { rules, written } = update(web, both, ['default/api'])
    assert.deepEqual(rules, new RuleRenderer(SETTINGS).render({ ...FIRST, desired: both }).rules)
    assert.ok(written.nat < rules.nat)
  })

  test('a full update removes the chains of services that it finds, and leaves those of others', () => {
    const chains = [
      'KUBE-SVC-AAAAAAAAAAAAAAAA',
      'KUBE-SEP-AAAAAAAAAAAAAAAA',
      'KUBE-KUBELET-CANARY',
      'CNI-ABC',
    ]
    const { text } = new RuleRenderer(SETTINGS).render({ ...FIRST, desired: web, base: { chains } })
    assert.deepEqual(removed(text), chains.slice(0, 2))
    assert.doesNotMatch(text, /CANARY|CNI-ABC/)
  })
})
