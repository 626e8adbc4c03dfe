/** RLIMIT_MEMLOCK, against which kernels before 5.11 count the memory of maps and programs. */
import { errnoName } from './errors.ts'
import { errno, libc, once } from './ffi.ts'
import { compareReleases, kernelRelease } from './release.ts'

const RLIMIT_MEMLOCK = 8
/** `RLIM_INFINITY` */
const INFINITY = 2n ** 64n - 1n
const EPERM = 1
/** From then on the kernel counts by cgroup. */
const COUNTED_UNTIL = '5.11'

/** What became of the limit. */
export interface MemoryLock {
  /** Bytes; undefined when there is no limit any more. */
  readonly limit: bigint | undefined
  /** Why it could not be raised, by the name of the error. */
  readonly failure?: string
}

/**
 * Lifts the limit of this process, once; maps and programs do it before the first of them is made. It does no harm where
 * the kernel counts by cgroup instead (5.11). To lift it takes SYS_RESOURCE; as high as its own maximum a process may
 * always go.
 */
export const raiseMemoryLock: () => MemoryLock = once(() => {
  const limits = new Uint8Array(16)
  const view = new DataView(limits.buffer)
  if (libc().getrlimit(RLIMIT_MEMLOCK, limits) < 0) return { limit: undefined, failure: errnoName(errno()) }
  const [soft, hard] = [view.getBigUint64(0, true), view.getBigUint64(8, true)]
  if (soft === INFINITY) return { limit: undefined }
  view.setBigUint64(0, INFINITY, true)
  view.setBigUint64(8, INFINITY, true)
  if (libc().setrlimit(RLIMIT_MEMLOCK, limits) === 0) return { limit: undefined }
  const failure = errnoName(errno())
  view.setBigUint64(0, hard, true)
  view.setBigUint64(8, hard, true)
  return { limit: libc().setrlimit(RLIMIT_MEMLOCK, limits) === 0 ? hard : soft, failure }
})

/**
 * What an EPERM means where the limit could not be lifted; undefined where it means what it always does.
 *
 * @param release Of the kernel.
 */
export function memoryLockHint(
  result: number,
  { limit, failure }: MemoryLock,
  release: string = kernelRelease().release,
): string | undefined {
  if (result !== -EPERM || limit === undefined || compareReleases(release, COUNTED_UNTIL) >= 0)
    return undefined
  return (
    `this kernel counts the memory of BPF against RLIMIT_MEMLOCK, which is ${limit} bytes and could not be raised ` +
    `(${failure}): raise it (ulimit -l unlimited), or give the process the capability SYS_RESOURCE`
  )
}
