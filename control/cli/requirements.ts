/** What Sluice needs of a kernel, of its own process and of the node, and what of it is here. */

import { existsSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  effectiveCapabilities,
  kernelRelease,
  mountsOfType,
  netnsCookie,
  type ProbeAnswer,
  probeBpfSyscall,
  probeHelper,
  probeKernelFunction,
  probeMapType,
  probeProgramType,
  probeTcx,
} from 'libbpf-ts'

/** One thing that is needed or useful, and whether it is here. */
export interface Finding {
  /** As a person would look for it. */
  readonly name: string
  readonly here: 'yes' | 'no' | 'unknown'
  /** Without it the daemon does not start. */
  readonly needed: boolean
  readonly use: string
  /** Why it is not here, what is done without it, or where it is. May be empty. */
  readonly detail: string
}

/**
 * The capabilities that the daemon works with on kernels from 5.8 on; SYS_ADMIN stands for BPF and PERFMON. Nothing
 * else is used: no object is opened by its id, which would want SYS_ADMIN.
 */
export const CAPABILITIES = ['BPF', 'NET_ADMIN', 'PERFMON'] as const

interface Feature {
  readonly name: string
  readonly use: string
  readonly probe: () => ProbeAnswer
  /** What is done without it; a feature that has no such thing is needed. */
  readonly otherwise?: string
}

const FEATURES: readonly Feature[] = [
  { name: 'bpf(2)', use: 'everything', probe: probeBpfSyscall },
  { name: 'tc programs', use: 'packets', probe: () => probeProgramType('sched_cls') },
  { name: 'tcx links', use: 'packets: attach ahead of others, outlive the daemon', probe: probeTcx },
  {
    name: 'bpf_fib_lookup',
    use: 'packets: the way of a reply',
    probe: () => probeHelper('sched_cls', 'fib_lookup'),
  },
  {
    name: 'bpf_ktime_get_coarse_ns',
    use: 'packets: a cheap clock',
    probe: () => probeHelper('sched_cls', 'ktime_get_coarse_ns'),
  },
  { name: 'LRU hash maps', use: 'unconfirmed flows, affinity', probe: () => probeMapType('lru_hash') },
  { name: 'LPM trie maps', use: 'source ranges', probe: () => probeMapType('lpm_trie') },
  {
    name: 'cgroup socket address programs',
    use: 'sockets of the node',
    probe: () => probeProgramType('cgroup_sock_addr'),
  },
  {
    name: 'cgroup socket programs',
    use: 'forget closed sockets',
    probe: () => probeProgramType('cgroup_sock'),
  },
  {
    name: 'bpf_get_netns_cookie',
    use: "sockets: the node's own only",
    probe: () => probeHelper('cgroup_sock_addr', 'get_netns_cookie'),
  },
  { name: 'SO_NETNS_COOKIE', use: "sockets: the node's own only", probe: probeCookie },
  {
    name: 'bpf_set_retval',
    use: 'ECONNREFUSED where no endpoint is',
    probe: () => probeHelper('cgroup_sock_addr', 'set_retval'),
    otherwise: 'connect fails with EPERM instead',
  },
  {
    name: 'bpf_skb_ct_lookup',
    use: 'packets: leave connections of another proxy alone',
    probe: () => probeKernelFunction('bpf_skb_ct_lookup', 'nf_conntrack'),
    otherwise: 'after a first start they go on for --handover-timeout',
  },
  { name: 'syscall programs', use: 'sweep expired flows', probe: () => probeProgramType('syscall') },
  {
    name: 'bpf_for_each_map_elem',
    use: 'sweep expired flows',
    probe: () => probeHelper('syscall', 'for_each_map_elem'),
  },
]

function probeCookie(): ProbeAnswer {
  if (netnsCookie() !== undefined) return { supported: 'yes' }
  return { supported: 'no', since: '5.14', reason: 'the kernel has no such socket option' }
}

/** What the kernel has. Where bpf(2) cannot be used there is nothing else to find out. */
export function probeKernel(): Finding[] {
  const bpf = probeBpfSyscall()
  if (bpf.supported !== 'yes') {
    return [{ name: 'bpf(2)', here: 'no', needed: true, use: 'everything', detail: bpf.reason }]
  }
  return FEATURES.map(({ name, use, probe, otherwise }) => findingOf(name, use, otherwise, probe()))
}

/** An answer as a line of the report. Pure. */
export function findingOf(
  name: string,
  use: string,
  otherwise: string | undefined,
  answer: ProbeAnswer,
): Finding {
  const needed = otherwise === undefined
  if (answer.supported === 'yes') return { name, here: 'yes', needed, use, detail: '' }
  const since =
    answer.supported === 'no' && answer.since !== undefined ? `, kernel ${answer.since} has it` : ''
  const instead = otherwise === undefined ? '' : `; ${otherwise}`
  return { name, here: answer.supported, needed, use, detail: `${answer.reason}${since}${instead}` }
}

/** What this process may do. */
export function probePrivileges(held: readonly string[] = effectiveCapabilities()): Finding[] {
  return CAPABILITIES.map((name) => {
    const isThere = held.includes(name) || (name !== 'NET_ADMIN' && held.includes('SYS_ADMIN'))
    return {
      name: `CAP_${name}`,
      here: isThere ? 'yes' : 'no',
      needed: true,
      use: CAPABILITY_USES[name],
      detail: isThere ? '' : 'run as root, or give the process this capability',
    }
  })
}

const CAPABILITY_USES: Readonly<Record<(typeof CAPABILITIES)[number], string>> = {
  BPF: 'load programs, make maps',
  NET_ADMIN: 'attach programs, netfilter rules',
  PERFMON: 'programs that compare pointers',
}

/** statfs(2)'s types of file systems, from <linux/magic.h>. */
const FILE_SYSTEMS = { bpf: 0xcafe4a11, cgroup2: 0x63677270 } as const

/** Whether a path, or the nearest folder above it that exists, is in a file system of this type. */
export function isOn(type: keyof typeof FILE_SYSTEMS, path: string): boolean {
  if (!existsSync(path)) return path !== '/' && isOn(type, dirname(path))
  return statfsSync(path).type === FILE_SYSTEMS[type]
}

/** The root of the first cgroup v2 mount that shows all of the hierarchy; undefined when there is none. */
export function cgroupMount(): string | undefined {
  return mountsOfType('cgroup2').find(({ root }) => root === '/')?.path
}

/** The mounts that the daemon works in. It mounts what is missing, so that neither is a reason to refuse. */
export function probeMounts(bpfRoot: string, cgroupRoot: string | undefined): Finding[] {
  const cgroup = cgroupRoot ?? cgroupMount()
  const finding = (name: string, isHere: boolean, use: string, detail: string): Finding => {
    return { name, here: isHere ? 'yes' : 'no', needed: false, use, detail }
  }
  const onBpf = isOn('bpf', bpfRoot)
  const onCgroup = cgroup !== undefined && isOn('cgroup2', cgroup)
  return [
    finding(
      'BPF file system',
      onBpf,
      'pins: what outlives the daemon',
      onBpf ? `has ${bpfRoot}` : `none has ${bpfRoot}; the daemon mounts one`,
    ),
    finding(
      'cgroup v2',
      onCgroup,
      'sockets of the node',
      onCgroup ? `at ${cgroup}` : 'none is mounted; the daemon mounts one',
    ),
  ]
}

/** `6.1.0-25-amd64` */
export const kernelText = (): string => kernelRelease().release

/** The needed things that are not here for sure, one phrase each. Pure. */
export function missing(findings: readonly Finding[]): string[] {
  return findings
    .filter(({ needed, here }) => needed && here === 'no')
    .map(({ name, detail }) => `${name} (${detail})`)
}
