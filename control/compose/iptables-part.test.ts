import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DEFAULT_MODEL_SETTINGS, type DetectLocal } from '../model/settings.ts'
import { iptablesModel, localPodsOf } from './iptables-part.ts'

const { scheduler: _, schedulers: __, ...traffic } = DEFAULT_MODEL_SETTINGS

describe('with what the model is computed for iptables', () => {
  it('what kube-proxy does, where nothing is said', () => {
    const { clientAddress, detectLocal, scheduler } = iptablesModel({ model: traffic, scheduler: undefined })
    assert.deepEqual(
      [clientAddress, detectLocal, scheduler],
      ['kube-proxy', { mode: 'ClusterCIDR', cidrs: {} }, 'random'],
    )
  })

  it('the scheduler and the way to tell pods that are asked for', () => {
    const detectLocal = { mode: 'NodeCIDR' } as const
    const model = iptablesModel({ model: { ...traffic, detectLocal }, scheduler: 'round-robin' })
    assert.deepEqual([model.detectLocal, model.scheduler], [detectLocal, 'round-robin'])
  })
})

describe('a scheduler that no rule can do', () => {
  it('is none of the default: that is random then, as where nothing is said', () => {
    const model = iptablesModel({ model: traffic, scheduler: 'maglev' })
    assert.deepEqual(
      [model.scheduler, model.schedulers],
      ['random', ['round-robin', 'weighted-round-robin', 'random']],
    )
  })
})

describe('what the rules match pods by', () => {
  const cidrs = ['10.244.0.0/16', 'fd00:10::/56']
  const v4 = { by: 'address', cidr: '10.244.0.0/16' }
  const rows: [how: DetectLocal, cidrs: readonly string[], expected: unknown][] = [
    [{ mode: 'ClusterCIDR', cidrs: {} }, [], {}],
    [{ mode: 'ClusterCIDR', cidrs: { ipv4: '10.244.0.0/16' } }, cidrs.slice(0, 1), { ipv4: v4 }],
    [{ mode: 'NodeCIDR' }, cidrs, { ipv4: v4, ipv6: { by: 'address', cidr: 'fd00:10::/56' } }],
    [
      { mode: 'BridgeInterface', name: 'cni0' },
      [],
      { ipv4: { by: 'device', name: 'cni0' }, ipv6: { by: 'device', name: 'cni0' } },
    ],
    [
      { mode: 'InterfaceNamePrefix', prefix: 'cali' },
      [],
      { ipv4: { by: 'device prefix', prefix: 'cali' }, ipv6: { by: 'device prefix', prefix: 'cali' } },
    ],
    [{ mode: 'devices' }, cidrs, {}],
  ]
  for (const [detectLocal, ranges, expected] of rows) {
    it(`${JSON.stringify(detectLocal)}, ${ranges.join()}`, () => {
      assert.deepEqual(localPodsOf({ detectLocal }, ranges), expected)
    })
  }
})
