import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type DetectLocal, detectsLocal, localCidrs } from './settings.ts'

describe('who is a local pod', () => {
  const rows: [detectLocal: DetectLocal, podCIDRs: string[], cidrs: object, detects: [boolean, boolean]][] = [
    [{ mode: 'devices' }, ['10.1.0.0/24'], {}, [true, true]],
    [{ mode: 'BridgeInterface', name: 'cni0' }, [], {}, [true, true]],
    [{ mode: 'InterfaceNamePrefix', prefix: 'cali' }, [], {}, [true, true]],
    [{ mode: 'ClusterCIDR', cidrs: {} }, ['10.1.0.0/24'], {}, [false, false]],
    [{ mode: 'ClusterCIDR', cidrs: { ipv6: 'fd00::/56' } }, [], { ipv6: 'fd00::/56' }, [false, true]],
    [{ mode: 'NodeCIDR' }, [], {}, [false, false]],
    [
      { mode: 'NodeCIDR' },
      ['10.1.0.0/24', 'nonsense', '10.2.0.0/24', 'fd00:1::/64'],
      { ipv4: '10.1.0.0/24', ipv6: 'fd00:1::/64' },
      [true, true],
    ],
  ]
  for (const [detectLocal, podCIDRs, cidrs, detects] of rows) {
    it(`${JSON.stringify(detectLocal)}, the node's ranges being ${podCIDRs.join(', ') || 'none'}`, () => {
      const detection = { settings: { detectLocal }, podCIDRs }
      assert.deepEqual(localCidrs(detection), cidrs)
      assert.deepEqual([detectsLocal(detection, 'ipv4'), detectsLocal(detection, 'ipv6')], detects)
    })
  }
})
