/** Where this kernel lets programs be attached. Nothing is attached to anything that lasts. */
import { attachClsact, ensureClsactQdisc } from './clsact.ts'
import { BpfError } from './errors.ts'
import { libbpf, libc } from './ffi.ts'
import { queryTcx } from './link.ts'
import { inNewNetworkNamespace } from './netns.ts'
import { loadProbe, type ProbeAnswer, RETURN_ZERO, refusal, unsupported } from './probe.ts'
import { CGROUP_HOOKS, type CgroupHook, type ProgramType } from './uapi.ts'

const EINVAL = 22
const LOOPBACK = 1

/** Whether tc programs can be attached by links (tcx, kernel 6.6): by asking who is on the loopback device. */
export function probeTcx(): ProbeAnswer {
  try {
    queryTcx(LOOPBACK, 'ingress')
    return { supported: 'yes' }
  } catch (cause) {
    if (!(cause instanceof BpfError)) throw cause
    if (cause.errno === EINVAL) return unsupported('tcx', '6.6')
    return { supported: 'unknown', reason: cause.message }
  }
}

/**
 * Whether tc programs can be attached by filters on a clsact qdisc: by attaching one in a network namespace that is made
 * for it and gone after. Unknown to a process that may not make one (it takes SYS_ADMIN).
 */
export function probeClsact(): ProbeAnswer {
  const { result: fd } = loadProbe('sched_cls', RETURN_ZERO)
  if (fd < 0) return refusal(fd, 'programs of type sched_cls', undefined)
  try {
    inNewNetworkNamespace(() => {
      ensureClsactQdisc(LOOPBACK)
      const place = { ifindex: LOOPBACK, direction: 'ingress', priority: 1, handle: 1 } as const
      attachClsact({ ...place, program: { fd, name: 'probe' }, name: 'probe' })
    })
    return { supported: 'yes' }
  } catch (cause) {
    if (!(cause instanceof BpfError)) throw cause
    if (cause.operation === 'enter') return { supported: 'unknown', reason: cause.message }
    // ENOENT: no such qdisc, or no such kind of filter.
    if (cause.errnoName === 'ENOENT') return { supported: 'no', reason: cause.message }
    return { supported: 'unknown', reason: cause.message }
  } finally {
    libc().close(fd)
  }
}

/** Whether there is a hook of cgroups: by loading a program for it. */
export function probeCgroupHook(hook: CgroupHook): ProbeAnswer {
  const { result, log } = loadProbe(cgroupProgramType(hook), RETURN_ZERO, CGROUP_HOOKS[hook])
  if (result >= 0) libc().close(result)
  // A log means that the verifier looked at it: the hook is known.
  if (result >= 0 || log !== '') return { supported: 'yes' }
  return refusal(result, `the cgroup hook ${hook}`, CGROUP_HOOKS_SINCE[hook])
}

const CGROUP_HOOKS_SINCE: Partial<Record<CgroupHook, string>> = {
  getpeername4: '5.8',
  getpeername6: '5.8',
  getsockname4: '5.8',
  getsockname6: '5.8',
  sock_release: '5.9',
}

const SOCKET_HOOKS: readonly CgroupHook[] = ['sock_create', 'sock_release', 'post_bind4', 'post_bind6']

function cgroupProgramType(hook: CgroupHook): ProgramType {
  if (hook === 'ingress' || hook === 'egress') return 'cgroup_skb'
  if (SOCKET_HOOKS.includes(hook)) return 'cgroup_sock'
  if (hook === 'sock_ops') return 'sock_ops'
  if (hook === 'device') return 'cgroup_device'
  if (hook === 'sysctl') return 'cgroup_sysctl'
  if (hook === 'getsockopt' || hook === 'setsockopt') return 'cgroup_sockopt'
  return 'cgroup_sock_addr'
}

/** Whether programs are attached to cgroups by links, which can be pinned (kernel 5.7): by making one of nothing. */
export function probeLinks(): ProbeAnswer {
  const result = libbpf().bpf_link_create(-1, -1, CGROUP_HOOKS.connect4, null)
  // The kernel that knows links minds the descriptor.
  return result === -EINVAL ? refusal(result, 'BPF links', '5.7') : { supported: 'yes' }
}
