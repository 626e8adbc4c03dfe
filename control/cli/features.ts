/** What the eBPF dataplane uses of a kernel: each thing, how it is found out, and what is done without it. */

import {
  type CgroupHook,
  netnsCookie,
  type ProbeAnswer,
  probeBatch,
  probeBpfSyscall,
  probeCgroupHook,
  probeClsact,
  probeHelper,
  probeJit,
  probeKernelConstant,
  probeKernelFunction,
  probeKernelTypes,
  probeLinks,
  probeMapType,
  probeProgramType,
  probeTcx,
  raiseMemoryLock,
} from 'libbpf-ts'

/** One thing that a kernel has or has not. */
export interface Feature {
  readonly name: string
  readonly use: string
  /** The kernel that brought it, or the option that it is built with. */
  readonly since: string
  readonly probe: () => ProbeAnswer
  /** What is done without it; a feature that has no such thing is needed. */
  readonly otherwise?: string
  /** The name of a feature that need not be there where this one is. */
  readonly spares?: string
}

const TCX = 'tcx links'
const CLSACT = 'clsact filters'

/** The first is what everything else is found out by. */
export const FEATURES: readonly Feature[] = [
  { name: 'bpf(2)', use: 'everything', since: 'CONFIG_BPF_SYSCALL', probe: probeBpfSyscall },
  { name: 'BPF links', use: 'outlive the daemon', since: '5.7', probe: probeLinks },
  {
    name: 'type information',
    use: "programs that call the kernel's functions",
    since: 'CONFIG_DEBUG_INFO_BTF',
    probe: () => probeKernelTypes(),
    otherwise: 'programs that call none',
  },
  { name: 'tc programs', use: 'packets', since: '4.1', probe: () => probeProgramType('sched_cls') },
  {
    name: TCX,
    use: 'packets: attach ahead of others, outlive the daemon',
    since: '6.6',
    probe: probeTcx,
    otherwise: 'clsact filters instead',
    spares: CLSACT,
  },
  { name: CLSACT, use: 'packets: attach where there is no tcx', since: '4.5', probe: probeClsact },
  {
    name: 'bpf_fib_lookup',
    use: 'packets: the way of a reply',
    since: '4.18',
    probe: () => probeHelper('sched_cls', 'fib_lookup'),
  },
  {
    name: 'bpf_skc_lookup_tcp',
    use: "packets: leave the node's own connections alone",
    since: '5.2',
    probe: () => probeHelper('sched_cls', 'skc_lookup_tcp'),
  },
  {
    name: 'bpf_ktime_get_coarse_ns',
    use: 'packets: a cheap clock',
    since: '5.11',
    probe: () => probeHelper('sched_cls', 'ktime_get_coarse_ns'),
  },
  {
    name: 'bpf_skb_ct_lookup',
    use: 'packets: leave connections of another proxy alone',
    since: '5.18',
    probe: () => probeKernelFunction('bpf_skb_ct_lookup', 'nf_conntrack'),
    otherwise: 'after a first start those of TCP go on for --handover-timeout; UDP streams are balanced anew',
  },
  {
    name: 'BPF_F_IPV6',
    use: 'packets: keep the checksum of a NIC over IPv6',
    since: '6.16',
    probe: () => probeKernelConstant('BPF_F_IPV6'),
    otherwise: 'the sum is taken again',
  },
  {
    name: 'LRU hash maps',
    use: 'unconfirmed flows, affinity',
    since: '4.10',
    probe: () => probeMapType('lru_hash'),
  },
  { name: 'LPM trie maps', use: 'source ranges', since: '4.11', probe: () => probeMapType('lpm_trie') },
  {
    name: 'batches of map entries',
    use: 'write and read large tables',
    since: '5.6',
    probe: () => probeBatch('hash'),
    otherwise: 'entry by entry',
  },
  {
    name: 'cgroup hooks of sockets',
    use: 'sockets of the node: connect, send, receive, close',
    since: '5.9',
    probe: probeSocketHooks,
  },
  {
    name: 'bpf_get_netns_cookie',
    use: "sockets: the node's own only",
    since: '5.7',
    probe: () => probeHelper('cgroup_sock_addr', 'get_netns_cookie'),
  },
  { name: 'SO_NETNS_COOKIE', use: "sockets: the node's own only", since: '5.14', probe: probeCookie },
  {
    name: 'bpf_set_retval',
    use: 'ECONNREFUSED where no endpoint is',
    since: '5.18',
    probe: () => probeHelper('cgroup_sock_addr', 'set_retval'),
    otherwise: 'connect fails with EPERM instead',
  },
  {
    name: 'syscall programs',
    use: 'sweep expired flows',
    since: '5.14',
    probe: () => probeProgramType('syscall'),
  },
  {
    name: 'bpf_for_each_map_elem',
    use: 'sweep expired flows',
    since: '5.13',
    probe: () => probeHelper('syscall', 'for_each_map_elem'),
  },
  {
    name: 'JIT compiler',
    use: 'programs with callbacks: sweep expired flows',
    since: 'CONFIG_BPF_JIT',
    probe: probeJit,
  },
  {
    name: 'unlimited RLIMIT_MEMLOCK',
    use: 'maps and programs on kernels before 5.11',
    since: 'the process',
    probe: probeMemoryLock,
    otherwise: 'newer kernels do not ask for it',
  },
]

const SOCKET_HOOKS: readonly CgroupHook[] = [
  'connect4',
  'connect6',
  'sendmsg4',
  'sendmsg6',
  'recvmsg4',
  'recvmsg6',
  'getpeername4',
  'getpeername6',
  'sock_release',
]

/** The first of the hooks that is not there for sure. */
function probeSocketHooks(): ProbeAnswer {
  const answers = SOCKET_HOOKS.map(probeCgroupHook)
  return answers.find(({ supported }) => supported !== 'yes') ?? { supported: 'yes' }
}

function probeCookie(): ProbeAnswer {
  if (netnsCookie() !== undefined) return { supported: 'yes' }
  return { supported: 'no', since: '5.14', reason: 'the kernel has no such socket option' }
}

function probeMemoryLock(): ProbeAnswer {
  const { limit, failure } = raiseMemoryLock()
  if (limit === undefined) return { supported: 'yes' }
  return { supported: 'no', reason: `it is ${limit} bytes and could not be raised (${failure ?? ''})` }
}
