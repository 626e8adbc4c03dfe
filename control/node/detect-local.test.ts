import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { DetectLocal } from '../model/settings.ts'
import type { ClassifiedDevice } from './classify.ts'
import { detectLocal } from './detect-local.ts'

const device = (ifindex: number, name: string, over: Partial<ClassifiedDevice>): ClassifiedDevice => ({
  ifindex,
  name,
  class: 'pod',
  why: '',
  isBridge: false,
  isL3: false,
  bridge: 0,
  mac: new Uint8Array(6),
  isolated: false,
  ...over,
})

const DEVICES = [
  device(2, 'eth0', { class: 'external' }),
  device(3, 'cni0', { isBridge: true }),
  device(4, 'veth1', { bridge: 3 }),
  device(5, 'cali2', {}),
  device(6, 'vxlan0', { class: 'tunnel' }),
  device(7, 'dummy0', { class: 'none' }),
]

describe('the devices behind which clients are internal', () => {
  const rows: [how: DetectLocal, names: string[]][] = [
    [{ mode: 'devices' }, ['cni0', 'veth1', 'cali2', 'vxlan0']],
    [{ mode: 'BridgeInterface', name: 'cni0' }, ['cni0', 'veth1']],
    [{ mode: 'InterfaceNamePrefix', prefix: 'cali' }, ['cali2']],
    // Netfilter sees what comes by a port come in on the bridge.
    [{ mode: 'InterfaceNamePrefix', prefix: 'veth' }, []],
    [{ mode: 'ClusterCIDR', cidrs: { ipv4: '10.0.0.0/8' } }, []],
    [{ mode: 'NodeCIDR' }, []],
  ]
  for (const [how, names] of rows) {
    it(JSON.stringify(how), () => {
      const internal = detectLocal(DEVICES, how).filter((each) => each.internal)
      assert.deepEqual(
        internal.map(({ name }) => name),
        names,
      )
    })
  }
})
