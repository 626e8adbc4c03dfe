/** Every error this package throws, each with a `code` that does not change with the wording. */
import os from 'node:os'

/** Names of errno values: the system's, and those that only the kernel's BPF code hands out. */
const ERRNO_NAMES: ReadonlyMap<number, string> = new Map([
  ...Object.entries(os.constants.errno)
    .toReversed()
    .map(([name, value]): [number, string] => [value, name]),
  [95, 'EOPNOTSUPP'],
  // Internal to the kernel (include/linux/errno.h), yet bpf(2) returns it, for example for a missing batch operation.
  [524, 'ENOTSUPP'],
  // libbpf's own (enum libbpf_errno).
  ...[
    'LIBELF',
    'FORMAT',
    'KVERSION',
    'ENDIAN',
    'INTERNAL',
    'RELOC',
    'LOAD',
    'VERIFY',
    'PROG2BIG',
    'KVER',
    'PROGTYPE',
  ].map((name, i): [number, string] => [4000 + i, `LIBBPF_${name}`]),
])

/** What an errno means in the calls made here, for those whose usual text misleads. */
const ERRNO_MEANINGS: Readonly<Record<string, string>> = {
  EPERM: 'operation not permitted: this needs root, or the capabilities BPF, NET_ADMIN and PERFMON',
  EACCES: 'permission denied',
  ENOENT: 'no such entry',
  EEXIST: 'it exists already',
  E2BIG: 'too many entries, or an argument longer than the kernel knows',
  EINVAL: 'invalid argument, or one that this kernel does not know',
  ENOMEM: 'out of memory',
  ENOSPC: 'no space left',
  EBUSY: 'somebody else is using it',
  ENODEV: 'no such device',
  ENOTSUPP: 'this kernel does not support it here',
  EOPNOTSUPP: 'this kernel does not support it here',
  ENOSYS: 'this kernel has no such system call',
  ENOLINK: 'the link is detached: its device or cgroup is gone',
}

/** The symbolic name of an errno, `E` and the number where there is none. */
export function errnoName(errno: number): string {
  return ERRNO_NAMES.get(Math.abs(errno)) ?? `E${Math.abs(errno)}`
}

/** A call to the kernel or to libbpf failed. */
export class BpfError extends Error {
  override readonly name: string = 'BpfError'
  readonly code: string = 'BPF_CALL'
  /** Positive errno. */
  readonly errno: number
  /** Its name, `EPERM` for example; what a caller decides by. */
  readonly errnoName: string
  /** What was tried: `update`, `load`, `attach tcx` … */
  readonly operation: string
  /** On what: the map, program, path or device. */
  readonly subject: string

  constructor(operation: string, subject: string, errno: number, detail?: string) {
    const name = errnoName(errno)
    const meaning = ERRNO_MEANINGS[name]
    const reason = detail ?? meaning
    super(`${operation} of ${subject} failed: ${name}${reason === undefined ? '' : `: ${reason}`}`)
    this.errno = Math.abs(errno)
    this.errnoName = name
    this.operation = operation
    this.subject = subject
  }
}

/** A batch stopped part-way: everything before `completed` was done, nothing from there on. */
export class BatchError extends BpfError {
  override readonly name: string = 'BatchError'
  override readonly code: string = 'BPF_BATCH'
  /** How many elements were done. */
  readonly completed: number

  constructor(operation: string, subject: string, errno: number, completed: number, count: number) {
    super(operation, subject, errno, `${meaningOf(errno)} (stopped after ${completed} of ${count})`)
    this.completed = completed
  }
}

/** The verifier refused a program. */
export class VerifierError extends BpfError {
  override readonly name: string = 'VerifierError'
  override readonly code: string = 'BPF_VERIFIER'
  /** The last line of the log that explains. */
  readonly line: string
  /** The whole log, or its part that fitted. */
  readonly log: string

  constructor(program: string, errno: number, log: string) {
    const line = tellingLine(log)
    super('load', `program ${program}`, errno, `the verifier says: ${line}`)
    this.line = line
    this.log = log
  }
}

/** One field in which a pinned map differs from what is wanted. */
export interface MapDifference {
  readonly field: 'type' | 'keySize' | 'valueSize' | 'maxEntries' | 'flags'
  readonly pinned: string | number
  readonly wanted: string | number
}

/** A map is pinned where one is wanted, but it is of another make; it was left alone. */
export class IncompatibleMapError extends Error {
  override readonly name: string = 'IncompatibleMapError'
  readonly code: string = 'BPF_INCOMPATIBLE_MAP'
  readonly map: string
  readonly path: string
  readonly differences: readonly MapDifference[]

  constructor(map: string, path: string, differences: readonly MapDifference[]) {
    const listed = differences.map(
      ({ field, pinned, wanted }) => `${field}: pinned ${pinned}, wanted ${wanted}`,
    )
    super(
      `map ${map}: the one pinned at ${path} cannot be reused (${listed.join('; ')}): ` +
        'use another path, or remove the pin if nothing needs its contents',
    )
    this.map = map
    this.path = path
    this.differences = differences
  }
}

/** An object file or a value given for it cannot be used. */
export class SpecError extends Error {
  override readonly name: string = 'SpecError'
  readonly code: string = 'BPF_SPEC'
}

/** A shared library is missing or too old. */
export class LibraryError extends Error {
  override readonly name: string = 'LibraryError'
  readonly code: string = 'BPF_LIBRARY'
  readonly library: string

  constructor(library: string, problem: string, options?: ErrorOptions) {
    super(`${library} ${problem}`, options)
    this.library = library
  }
}

/** The kernel answered a netlink request with an error. */
export class NetlinkError extends Error {
  override readonly name: string = 'NetlinkError'
  readonly code: string = 'BPF_NETLINK'
  /** Positive errno. */
  readonly errno: number
  readonly errnoName: string
  /** The kernel's own words, where it had some. */
  readonly detail: string | undefined

  constructor(operation: string, errno: number, detail?: string) {
    const reason = detail ?? ERRNO_MEANINGS[errnoName(errno)]
    super(`netlink ${operation} failed: ${errnoName(errno)}${reason === undefined ? '' : `: ${reason}`}`)
    this.errno = Math.abs(errno)
    this.errnoName = errnoName(errno)
    this.detail = detail
  }
}

function meaningOf(errno: number): string {
  return ERRNO_MEANINGS[errnoName(errno)] ?? 'the kernel gives no more'
}

/**
 * The line of a verifier log that says why: the last one before the closing statistics ("processed 12 insns …").
 * Lines that only accompany it (precision tracking, timing) are passed over.
 */
export function tellingLine(log: string): string {
  const lines = log.split('\n').map((line) => line.trim())
  const noise = /^(processed \d+ insns|verification time|stack depth|mark_precise:|peak_states|$)/
  return lines.findLast((line) => !noise.test(line)) ?? 'nothing (the log is empty)'
}
