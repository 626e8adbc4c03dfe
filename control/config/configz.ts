/** The configuration that is in use, in the terms of kube-proxy: the body of its `/configz`, and of `--write-config-to`. Pure. */

import { hostPort } from '../model/address.ts'
import type { DetectLocal } from '../model/settings.ts'
import { durationText } from './kinds.ts'
import { API_VERSION, KIND, type KubeProxyValues } from './kube-proxy.ts'
import type { RunOptions } from './options.ts'
import type { BindAddress } from './server-options.ts'

/** A document: the fields in kube-proxy's order, and of those that it leaves out when they are empty only the others. */
export type KubeProxyDocument = Readonly<Record<string, unknown>>

/** The group of the document in the answer of `/configz`. */
export const CONFIGZ_GROUP = 'kubeproxy.config.k8s.io'

/** @param mode What stands for the mode: the dataplane in use, or what is asked for. */
export function kubeProxyDocument(options: RunOptions, mode: string): KubeProxyDocument {
  const { kubeProxy: values, source, model, conntrack } = options
  const { featureGates, windowsRunAsService, ...rest } = values
  const { vmodule, ...logging } = values.logging
  const { nodePortAddresses: nodePorts } = model
  return {
    kind: KIND,
    apiVersion: API_VERSION,
    ...(Object.keys(featureGates).length === 0 ? {} : { featureGates }),
    ...rest,
    clientConnection: {
      ...values.clientConnection,
      kubeconfig: (source.kind === 'kubernetes' && source.kubeconfig) || '',
    },
    logging: {
      ...logging,
      format: options.loggingFormat,
      verbosity: options.verbosity,
      ...(vmodule === null ? {} : { vmodule }),
    },
    hostnameOverride: options.nodeName,
    healthzBindAddress: placeText(options.healthzBindAddress),
    metricsBindAddress: placeText(options.metricsBindAddress),
    bindAddressHardFail: options.bindAddressHardFail,
    mode,
    iptables: {
      ...values.iptables,
      masqueradeBit: options.masqueradeBit,
      masqueradeAll: model.masqueradeAll,
      localhostNodePorts: model.localhostNodePorts,
    },
    ...(windowsRunAsService ? { windowsRunAsService } : {}),
    ...podFields(model.detectLocal, values),
    nodePortAddresses: nodePorts === 'primary' ? ['primary'] : nodePorts.length === 0 ? null : nodePorts,
    conntrack: {
      ...values.conntrack,
      tcpEstablishedTimeout: durationText(conntrack.tcpEstablished * 1000),
      tcpCloseWaitTimeout: durationText(conntrack.tcpCloseWait * 1000),
      udpTimeout: durationText(conntrack.udp * 1000),
      udpStreamTimeout: durationText(conntrack.udpStream * 1000),
    },
  }
}

function placeText(place: BindAddress | undefined): string {
  return place === undefined ? '' : hostPort(place.address, place.port)
}

function podFields(detectLocal: DetectLocal, { detectLocal: names, clusterCIDR }: KubeProxyValues) {
  const { mode } = detectLocal
  return {
    detectLocalMode: mode === 'devices' ? '' : mode,
    detectLocal: {
      bridgeInterface: mode === 'BridgeInterface' ? detectLocal.name : names.bridgeInterface,
      interfaceNamePrefix: mode === 'InterfaceNamePrefix' ? detectLocal.prefix : names.interfaceNamePrefix,
    },
    clusterCIDR: mode === 'ClusterCIDR' ? Object.values(detectLocal.cidrs).join(',') : clusterCIDR,
  }
}
