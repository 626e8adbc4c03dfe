/** Behind which devices the clients are local pods. Pure. */

import type { DetectLocal } from '../model/settings.ts'
import type { ClassifiedDevice } from './classify.ts'

/** A device, and whether its clients are internal whatever their addresses. */
export interface DetectedDevice extends ClassifiedDevice {
  readonly internal: boolean
}

/**
 * Left to the devices, the clients are internal wherever the class is not external: pods, and those of other nodes that
 * come by a tunnel. By kube-proxy's two modes of interfaces it is the name of the device on which netfilter sees a
 * packet come in: the bridge's, for a port of one. Where addresses decide, no device does.
 */
export function detectLocal(devices: readonly ClassifiedDevice[], how: DetectLocal): DetectedDevice[] {
  const names = new Map(devices.map(({ ifindex, name }) => [ifindex, name]))
  return devices.map((device) => ({
    ...device,
    internal: isInternal(device, names.get(device.bridge) ?? device.name, how),
  }))
}

function isInternal(device: ClassifiedDevice, incoming: string, how: DetectLocal): boolean {
  switch (how.mode) {
    case 'devices':
      return device.class === 'pod' || device.class === 'tunnel'
    case 'BridgeInterface':
      return incoming === how.name
    case 'InterfaceNamePrefix':
      return incoming.startsWith(how.prefix)
    case 'ClusterCIDR':
    case 'NodeCIDR':
      return false
  }
}
