/**
 * Numbers and names of the kernel's user-space interface (include/uapi/linux/bpf.h). They never change once
 * released, and the headers of older distributions lack the newer ones: so they are written here.
 */

/** In the order of `enum bpf_map_type`. */
const MAP_TYPES = [
  'unspec',
  'hash',
  'array',
  'prog_array',
  'perf_event_array',
  'percpu_hash',
  'percpu_array',
  'stack_trace',
  'cgroup_array',
  'lru_hash',
  'lru_percpu_hash',
  'lpm_trie',
  'array_of_maps',
  'hash_of_maps',
  'devmap',
  'sockmap',
  'cpumap',
  'xskmap',
  'sockhash',
  'cgroup_storage',
  'reuseport_sockarray',
  'percpu_cgroup_storage',
  'queue',
  'stack',
  'sk_storage',
  'devmap_hash',
  'struct_ops',
  'ringbuf',
  'inode_storage',
  'task_storage',
  'bloom_filter',
  'user_ringbuf',
  'cgrp_storage',
  'arena',
] as const

/** In the order of `enum bpf_prog_type`. */
const PROGRAM_TYPES = [
  'unspec',
  'socket_filter',
  'kprobe',
  'sched_cls',
  'sched_act',
  'tracepoint',
  'xdp',
  'perf_event',
  'cgroup_skb',
  'cgroup_sock',
  'lwt_in',
  'lwt_out',
  'lwt_xmit',
  'sock_ops',
  'sk_skb',
  'cgroup_device',
  'sk_msg',
  'raw_tracepoint',
  'cgroup_sock_addr',
  'lwt_seg6local',
  'lirc_mode2',
  'sk_reuseport',
  'flow_dissector',
  'cgroup_sysctl',
  'raw_tracepoint_writable',
  'cgroup_sockopt',
  'tracing',
  'struct_ops',
  'ext',
  'lsm',
  'sk_lookup',
  'syscall',
  'netfilter',
] as const

/** In the order of `enum bpf_link_type`. */
const LINK_TYPES = [
  'unspec',
  'raw_tracepoint',
  'tracing',
  'cgroup',
  'iter',
  'netns',
  'xdp',
  'perf_event',
  'kprobe_multi',
  'struct_ops',
  'netfilter',
  'tcx',
  'uprobe_multi',
  'netkit',
  'sockmap',
] as const

/** The kind of a map, as the kernel names it. */
export type MapType = (typeof MAP_TYPES)[number]
/** The kind of a program, as the kernel names it. */
export type ProgramType = (typeof PROGRAM_TYPES)[number]
/** The kind of a link, as the kernel names it. */
export type LinkType = (typeof LINK_TYPES)[number]

/** Hooks of a cgroup that a program can be attached to, and their `enum bpf_attach_type`. */
export const CGROUP_HOOKS = {
  ingress: 0,
  egress: 1,
  sock_create: 2,
  sock_ops: 3,
  device: 6,
  bind4: 8,
  bind6: 9,
  connect4: 10,
  connect6: 11,
  post_bind4: 12,
  post_bind6: 13,
  sendmsg4: 14,
  sendmsg6: 15,
  sysctl: 18,
  recvmsg4: 19,
  recvmsg6: 20,
  getsockopt: 21,
  setsockopt: 22,
  getpeername4: 29,
  getpeername6: 30,
  getsockname4: 31,
  getsockname6: 32,
  sock_release: 34,
} as const
/** A hook of a cgroup. */
export type CgroupHook = keyof typeof CGROUP_HOOKS

/** `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS` (kernel 6.6). */
export const TCX_ATTACH_TYPES = { ingress: 46, egress: 47 } as const
/** Which way packets go through a device. */
export type Direction = keyof typeof TCX_ATTACH_TYPES

/** `BPF_XDP`. */
export const XDP_ATTACH_TYPE = 37
/** `XDP_FLAGS_DRV_MODE` and `XDP_FLAGS_SKB_MODE`, by what the modes are called. */
export const XDP_MODES = { native: 1 << 2, generic: 1 << 1 } as const
/**
 * Where XDP programs of a device run: in its driver, ahead of the kernel's packet buffer, or behind it, which every device
 * can do and which gains little.
 */
export type XdpMode = keyof typeof XDP_MODES

/** Flags of map creation. */
export const MAP_FLAGS = {
  /** `BPF_F_NO_PREALLOC`: memory for an entry is allocated when it is added; LPM tries need it. */
  noPrealloc: 1,
  /** `BPF_F_MMAPABLE`: an array that `BpfMap.memory()` can map (kernel 5.5). */
  mmapable: 1 << 10,
} as const

/** `BPF_F_RDONLY`, for opening a pin. */
export const OPEN_READ_ONLY = 1 << 3
/** `BPF_F_BEFORE` and `BPF_F_AFTER` (kernel 6.6): without a relative, the head and the tail of the chain. */
export const ATTACH_BEFORE = 1 << 3
export const ATTACH_AFTER = 1 << 4
/** `BPF_PROG_QUERY`. */
export const COMMAND_PROGRAM_QUERY = 16

/** How an update treats the key: `any` creates or replaces, `noexist` only creates, `exist` only replaces. */
export const UPDATE_MODES = { any: 0, noexist: 1, exist: 2 } as const
/** How an update treats the key. */
export type UpdateMode = keyof typeof UPDATE_MODES

/** The number of bpf(2) by `process.arch`. */
export const BPF_SYSCALL_NUMBERS: Readonly<Record<string, number>> = { x64: 321, arm64: 280, riscv64: 280 }

/** The name of a map type; `unspec` for a number newer than this list. */
export function mapTypeName(type: number): MapType {
  return MAP_TYPES[type] ?? 'unspec'
}
/** `enum bpf_map_type` of a name. */
export function mapTypeNumber(type: MapType): number {
  return MAP_TYPES.indexOf(type)
}
/** The name of a program type; `unspec` for a number newer than this list. */
export function programTypeName(type: number): ProgramType {
  return PROGRAM_TYPES[type] ?? 'unspec'
}
/** `enum bpf_prog_type` of a name. */
export function programTypeNumber(type: ProgramType): number {
  return PROGRAM_TYPES.indexOf(type)
}
/** The name of a link type; `unspec` for a number newer than this list. */
export function linkTypeName(type: number): LinkType {
  return LINK_TYPES[type] ?? 'unspec'
}

/** Whether each CPU has its own value under a key of such a map. */
export function isPerCpu(type: MapType): boolean {
  return type === 'percpu_hash' || type === 'percpu_array' || type === 'lru_percpu_hash'
}

/** Helpers worth probing for: `enum bpf_func_id`, and the kernel that brought them. */
export const HELPERS = {
  redirect: { number: 23, since: '4.4' },
  get_socket_cookie: { number: 46, since: '4.12' },
  fib_lookup: { number: 69, since: '4.18' },
  sk_lookup_tcp: { number: 84, since: '4.20' },
  skc_lookup_tcp: { number: 99, since: '5.2' },
  get_netns_cookie: { number: 122, since: '5.7' },
  ringbuf_output: { number: 130, since: '5.8' },
  redirect_neigh: { number: 152, since: '5.10' },
  redirect_peer: { number: 155, since: '5.10' },
  ktime_get_coarse_ns: { number: 160, since: '5.11' },
  check_mtu: { number: 163, since: '5.12' },
  for_each_map_elem: { number: 164, since: '5.13' },
  timer_init: { number: 169, since: '5.15' },
  loop: { number: 181, since: '5.17' },
  get_retval: { number: 186, since: '5.18' },
  set_retval: { number: 187, since: '5.18' },
  map_lookup_percpu_elem: { number: 195, since: '5.19' },
} as const
/** The name of such a helper, without `bpf_`. */
export type HelperName = keyof typeof HELPERS
