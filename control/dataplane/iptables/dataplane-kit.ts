/** A dataplane with everything around it for tests: the kernel is a fake one, or a network namespace. */

import { inNetworkNamespace, openNetlink } from 'libbpf-ts'
import { makeEndpoint, makePort, makeService, makeSlice } from '../../model/fixtures.ts'
import type { DesiredState, EndpointSlice, Protocol, Service } from '../../model/types.ts'
import { runCommand } from '../netfilter/command.ts'
import { type Sysctls, systemSysctls } from '../netfilter/sysctls.ts'
import { IptablesDataplane, type IptablesDataplaneOptions } from './dataplane.ts'
import type { Reconciled } from './stale-conntrack.ts'
import { desiredOf } from './test-kit.ts'

export interface Subject {
  readonly dataplane: IptablesDataplane
  readonly lines: string[]
  readonly reconciled: Reconciled[]
}

type Kernel = Pick<IptablesDataplaneOptions, 'run' | 'sysctls' | 'openNetfilter'>

/** Both families, kube-proxy's defaults. `lines` is what it logs. */
export function makeSubject(kernel: Kernel, options: Partial<IptablesDataplaneOptions> = {}): Subject {
  const lines: string[] = []
  const reconciled: Reconciled[] = []
  const dataplane = new IptablesDataplane({
    families: ['ipv4', 'ipv6'],
    masqueradeMark: 1 << 14,
    localhostNodePorts: true,
    log: {
      debug: () => undefined,
      info: (text) => lines.push(`info ${text}`),
      warn: (text, fields) =>
        lines.push(`warn ${text}${fields === undefined ? '' : `: ${String(fields['err'])}`}`),
    },
    reconciled: (what) => reconciled.push(what),
    ...kernel,
    ...options,
  })
  return { dataplane, lines, reconciled }
}

/** Sysctls that are not the kernel's. */
export function fakeSysctls(values: Record<string, string>): Sysctls {
  return {
    read: (name) => values[name],
    write: (name, value) => {
      values[name] = value
    },
  }
}

export interface ServiceShape {
  readonly name: string
  readonly clusterIPs?: readonly string[]
  readonly protocol?: Protocol
  readonly port?: number
  readonly nodePort?: number
  /** Of either family. */
  readonly endpoints: readonly string[]
  readonly targetPort?: number
}

/** The state of a cluster of such services, in the namespace `t`. */
export function stateOf(...shapes: readonly ServiceShape[]): DesiredState {
  return desiredOf(shapes.map(serviceOf), shapes.flatMap(slicesOf))
}

function serviceOf({
  name,
  clusterIPs = ['10.96.0.10'],
  protocol,
  port,
  nodePort = 0,
}: ServiceShape): Service {
  return makeService({
    namespace: 't',
    name,
    type: nodePort === 0 ? 'ClusterIP' : 'NodePort',
    clusterIPs,
    ports: [makePort({ nodePort, ...(protocol && { protocol }), ...(port && { port }) })],
  })
}

function slicesOf({ name, protocol = 'TCP', endpoints, targetPort = 8080 }: ServiceShape): EndpointSlice[] {
  return (['IPv4', 'IPv6'] as const).map((addressType) =>
    makeSlice(
      endpoints
        .filter((address) => address.includes(':') === (addressType === 'IPv6'))
        .map((address) => makeEndpoint(address)),
      {
        namespace: 't',
        name: `${name}-${addressType}`,
        serviceName: name,
        addressType,
        ports: [{ name: '', protocol, port: targetPort }],
      },
    ),
  )
}

/** The kernel of a network namespace. `lock` is the file of the lock of its own that its legacy iptables takes. */
export function kernelOf(namespace: string, lock: string): Required<Kernel> {
  const path = `/run/netns/${namespace}`
  return {
    run: (argv, ...rest) =>
      runCommand(['nsenter', `--net=${path}`, '--', 'env', `XTABLES_LOCKFILE=${lock}`, ...argv], ...rest),
    sysctls: {
      read: (name) => inNetworkNamespace(path, () => systemSysctls.read(name)),
      write: (name, value) => inNetworkNamespace(path, () => systemSysctls.write(name, value)),
    },
    openNetfilter: () => openNetlink({ family: 'netfilter', namespace: path }),
  }
}
