/** The options of `sluice run`, from the texts that were given, each understood by itself, to what they mean. Pure. */

import { type DevicePatterns, devicePatterns } from './device-options.ts'
import type { PortRange } from './node-port-options.ts'
import { type RunOptions, requiredSource, type SourceTexts } from './options.ts'
import { proxyOptions, type ReadProxyOptions } from './proxy-mode.ts'
import { type ReadServerOptions, serverOptions } from './server-options.ts'
import { flowTimeouts, type ReadTimeouts } from './timeouts.ts'
import { modelSettings, type ReadTrafficOptions } from './traffic-options.ts'

/** As commander hands them over: by the long names of the options. */
export interface ReadRunOptions
  extends Pick<
      RunOptions,
      'nodeName' | 'bpfRoot' | 'cgroupRoot' | 'attach' | 'socketLoadBalancing' | 'netnsDir' | 'loggingFormat'
    >,
    SourceTexts,
    ReadTrafficOptions,
    ReadServerOptions,
    ReadProxyOptions,
    DevicePatterns,
    ReadTimeouts {
  readonly mapSize: Readonly<Record<string, number>>
  readonly v: number
  readonly iptablesMasqueradeBit: number
  readonly serviceNodePortRange: PortRange
}

/**
 * What they come to together.
 *
 * @param isInPod Whether an API server that nobody names is the one that the kubelet does.
 */
export function runOptions(read: ReadRunOptions, isInPod: boolean): RunOptions {
  const { nodeName, bpfRoot, cgroupRoot, attach, socketLoadBalancing, netnsDir, loggingFormat } = read
  return {
    source: requiredSource(sourceTexts(read), isInPod),
    nodeName,
    bpfRoot,
    cgroupRoot,
    attach,
    socketLoadBalancing,
    netnsDir,
    mapSizes: read.mapSize,
    model: modelSettings(read),
    masqueradeBit: read.iptablesMasqueradeBit,
    timeouts: flowTimeouts(read),
    ...serverOptions(read),
    ...proxyOptions(read),
    nodePortRange: read.serviceNodePortRange,
    devicePatterns: devicePatterns(read),
    verbosity: read.v,
    loggingFormat,
  }
}

/** Those that say where the objects are, of all. */
export function sourceTexts({ source, kubeconfig, apiServer }: SourceTexts): SourceTexts {
  return { source, kubeconfig, apiServer }
}
