/**
 * The one file that knows koffi, the foreign function interface. It binds the functions this package uses of
 * `libbpf.so.1` (1.1 and later) and of the C library, and gives each its TypeScript signature.
 *
 * Conventions of what is bound: functions of libbpf return 0 or a value, or a negative errno (libbpf ≥ 1.0);
 * those that return a pointer return null and leave the reason in errno; those of the C library return -1 and
 * leave it in errno. Buffers are passed as they are, never copied: the caller guarantees their sizes.
 */
import os from 'node:os'
import koffi, { type LibraryHandle } from 'koffi'
import { LibraryError } from './errors.ts'

/** An address in this process; null is C's NULL. */
export type Pointer = bigint

/** The functions of libbpf, named as in its headers (`bpf/bpf.h`, `bpf/libbpf.h`), where they are described. */
export interface Libbpf {
  libbpf_version_string(): string
  libbpf_set_print(callback: Pointer | null): Pointer | null
  libbpf_num_possible_cpus(): number
  libbpf_probe_bpf_map_type(type: number, options: null): number

  bpf_object__open(path: string): Pointer | null
  bpf_object__load(object: Pointer): number
  bpf_object__close(object: Pointer): void
  bpf_object__next_map(object: Pointer, previous: Pointer | null): Pointer | null
  bpf_object__next_program(object: Pointer, previous: Pointer | null): Pointer | null

  bpf_map__name(map: Pointer): string
  bpf_map__type(map: Pointer): number
  bpf_map__key_size(map: Pointer): number
  bpf_map__value_size(map: Pointer): number
  bpf_map__max_entries(map: Pointer): number
  bpf_map__map_flags(map: Pointer): number
  bpf_map__is_internal(map: Pointer): boolean
  bpf_map__fd(map: Pointer): number
  bpf_map__reuse_fd(map: Pointer, fd: number): number
  bpf_map__set_pin_path(map: Pointer, path: null): number
  bpf_map__set_max_entries(map: Pointer, maxEntries: number): number
  bpf_map__set_map_flags(map: Pointer, flags: number): number
  bpf_map__initial_value(map: Pointer, size: Uint8Array): Pointer | null

  bpf_program__name(program: Pointer): string
  bpf_program__section_name(program: Pointer): string
  bpf_program__type(program: Pointer): number
  bpf_program__insn_cnt(program: Pointer): number
  bpf_program__fd(program: Pointer): number
  bpf_program__set_autoload(program: Pointer, autoload: boolean): number
  bpf_program__set_log_buf(program: Pointer, buffer: Pointer, size: number): number

  bpf_map_create(
    type: number,
    name: string,
    keySize: number,
    valueSize: number,
    maxEntries: number,
    options: Uint8Array,
  ): number
  bpf_map_update_elem(fd: number, key: Uint8Array, value: Uint8Array, flags: number): number
  bpf_map_lookup_elem(fd: number, key: Uint8Array, value: Uint8Array): number
  bpf_map_delete_elem(fd: number, key: Uint8Array): number
  bpf_map_get_next_key(fd: number, key: Uint8Array | null, next: Uint8Array): number
  bpf_map_update_batch(
    fd: number,
    keys: Uint8Array,
    values: Uint8Array,
    count: Uint8Array,
    options: null,
  ): number
  bpf_map_delete_batch(fd: number, keys: Uint8Array, count: Uint8Array, options: null): number
  bpf_map_lookup_batch(
    fd: number,
    from: Uint8Array | null,
    next: Uint8Array,
    keys: Uint8Array,
    values: Uint8Array,
    count: Uint8Array,
    options: null,
  ): number

  bpf_obj_pin(fd: number, path: string): number
  bpf_obj_get_opts(path: string, options: Uint8Array | null): number
  bpf_obj_get_info_by_fd(fd: number, info: Uint8Array, length: Uint8Array): number
  bpf_link_create(program: number, target: number, attachType: number, options: Uint8Array | null): number
  bpf_link_update(link: number, program: number, options: null): number
  bpf_link_detach(link: number): number
  bpf_prog_load(
    type: number,
    name: string,
    license: string,
    instructions: Uint8Array,
    count: number,
    options: Uint8Array,
  ): number
  bpf_prog_test_run_opts(program: number, options: Uint8Array): number
}

/** The functions of the C library that this package needs, as in their manual pages. */
export interface Libc {
  close(fd: number): number
  fcntl(fd: number, command: number, type: 'int', argument: number): number
  mmap(address: null, length: number, protection: number, flags: number, fd: number, offset: number): Pointer
  munmap(address: Pointer, length: number): number
  getpagesize(): number
  socket(domain: number, type: number, protocol: number): number
  bind(fd: number, address: Uint8Array, length: number): number
  send(fd: number, buffer: Uint8Array, length: number, flags: number): number
  recv(fd: number, buffer: Uint8Array, length: number, flags: number): number
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number
  setns(fd: number, type: number): number
  unshare(flags: number): number
  getrlimit(resource: number, limits: Uint8Array): number
  setrlimit(resource: number, limits: Uint8Array): number
  /** Arguments as a `va_list`, which on each supported machine is passed as a pointer. */
  vsnprintf(buffer: Uint8Array, size: number, format: Pointer, list: Pointer): number
  /** Only for bpf(2): the number, the command, the attributes, their size. */
  syscall(number: number, command: number, attributes: Uint8Array, size: number): number
}

type Signature = readonly [result: string, ...parameters: string[]]

const LIBBPF_SIGNATURES: Record<keyof Libbpf, Signature> = {
  libbpf_version_string: ['str'],
  libbpf_set_print: ['void *', 'void *'],
  libbpf_num_possible_cpus: ['int'],
  libbpf_probe_bpf_map_type: ['int', 'int', 'void *'],

  bpf_object__open: ['void *', 'str'],
  bpf_object__load: ['int', 'void *'],
  bpf_object__close: ['void', 'void *'],
  bpf_object__next_map: ['void *', 'void *', 'void *'],
  bpf_object__next_program: ['void *', 'void *', 'void *'],

  bpf_map__name: ['str', 'void *'],
  bpf_map__type: ['int', 'void *'],
  bpf_map__key_size: ['uint32', 'void *'],
  bpf_map__value_size: ['uint32', 'void *'],
  bpf_map__max_entries: ['uint32', 'void *'],
  bpf_map__map_flags: ['uint32', 'void *'],
  bpf_map__is_internal: ['bool', 'void *'],
  bpf_map__fd: ['int', 'void *'],
  bpf_map__reuse_fd: ['int', 'void *', 'int'],
  bpf_map__set_pin_path: ['int', 'void *', 'void *'],
  bpf_map__set_max_entries: ['int', 'void *', 'uint32'],
  bpf_map__set_map_flags: ['int', 'void *', 'uint32'],
  bpf_map__initial_value: ['void *', 'void *', 'void *'],

  bpf_program__name: ['str', 'void *'],
  bpf_program__section_name: ['str', 'void *'],
  bpf_program__type: ['int', 'void *'],
  bpf_program__insn_cnt: ['size_t', 'void *'],
  bpf_program__fd: ['int', 'void *'],
  bpf_program__set_autoload: ['int', 'void *', 'bool'],
  bpf_program__set_log_buf: ['int', 'void *', 'void *', 'size_t'],

  bpf_map_create: ['int', 'int', 'str', 'uint32', 'uint32', 'uint32', 'void *'],
  bpf_map_update_elem: ['int', 'int', 'void *', 'void *', 'uint64'],
  bpf_map_lookup_elem: ['int', 'int', 'void *', 'void *'],
  bpf_map_delete_elem: ['int', 'int', 'void *'],
  bpf_map_get_next_key: ['int', 'int', 'void *', 'void *'],
  bpf_map_update_batch: ['int', 'int', 'void *', 'void *', 'void *', 'void *'],
  bpf_map_delete_batch: ['int', 'int', 'void *', 'void *', 'void *'],
  bpf_map_lookup_batch: ['int', 'int', 'void *', 'void *', 'void *', 'void *', 'void *', 'void *'],

  bpf_obj_pin: ['int', 'int', 'str'],
  bpf_obj_get_opts: ['int', 'str', 'void *'],
  bpf_obj_get_info_by_fd: ['int', 'int', 'void *', 'void *'],
  bpf_link_create: ['int', 'int', 'int', 'int', 'void *'],
  bpf_link_update: ['int', 'int', 'int', 'void *'],
  bpf_link_detach: ['int', 'int'],
  bpf_prog_load: ['int', 'int', 'str', 'str', 'void *', 'size_t', 'void *'],
  bpf_prog_test_run_opts: ['int', 'int', 'void *'],
}

const LIBC_SIGNATURES: Record<keyof Libc, Signature> = {
  close: ['int', 'int'],
  fcntl: ['int', 'int', 'int', '...'],
  mmap: ['void *', 'void *', 'size_t', 'int', 'int', 'int', 'int64'],
  munmap: ['int', 'void *', 'size_t'],
  getpagesize: ['int'],
  socket: ['int', 'int', 'int', 'int'],
  bind: ['int', 'int', 'void *', 'uint32'],
  send: ['int64', 'int', 'void *', 'size_t', 'int'],
  recv: ['int64', 'int', 'void *', 'size_t', 'int'],
  getsockopt: ['int', 'int', 'int', 'int', 'void *', 'void *'],
  setsockopt: ['int', 'int', 'int', 'int', 'void *', 'uint32'],
  setns: ['int', 'int', 'int'],
  unshare: ['int', 'int'],
  getrlimit: ['int', 'int', 'void *'],
  setrlimit: ['int', 'int', 'void *'],
  vsnprintf: ['int', 'void *', 'size_t', 'void *', 'void *'],
  syscall: ['int64', 'int64', 'int', 'void *', 'uint32'],
}

/** libbpf, loaded and bound at its first use, so that importing this package needs no library. */
export const libbpf: () => Libbpf = once(() => {
  checkPlatform()
  const bound = bindAll<Libbpf>(
    'libbpf.so.1',
    LIBBPF_SIGNATURES,
    'install it (Debian, Ubuntu: apt install libbpf1; Fedora: dnf install libbpf)',
  )
  // Its default writes to stderr; what it has to say is in the errors this package throws.
  bound.libbpf_set_print(null)
  return bound
})

/** The C library, bound at its first use. */
export const libc: () => Libc = once(() => {
  checkPlatform()
  return bindAll<Libc>('libc.so.6', LIBC_SIGNATURES, 'this package needs Linux with the GNU C library')
})

const LIBBPF_WARN = 0
const MESSAGE_SIZE = 1024

/**
 * Runs something with libbpf's warnings kept: what it says of a failure that its errno does not.
 * Messages longer than a kilobyte are cut.
 */
export function keepWarnings<T>(run: () => T): { result: T; warnings: string[] } {
  const warnings: string[] = []
  const buffer = new Uint8Array(MESSAGE_SIZE)
  const print = (level: number, format: Pointer, list: Pointer): number => {
    if (level !== LIBBPF_WARN) return 0
    const length = libc().vsnprintf(buffer, MESSAGE_SIZE, format, list)
    const text = new TextDecoder().decode(buffer.subarray(0, Math.min(length, MESSAGE_SIZE - 1)))
    warnings.push(text.replace(/^libbpf: /, '').trim())
    return 0
  }
  const callback = koffi.register(print, koffi.pointer(printFunction()))
  libbpf().libbpf_set_print(callback)
  try {
    return { result: run(), warnings }
  } finally {
    libbpf().libbpf_set_print(null)
    koffi.unregister(callback)
  }
}

const printFunction = once(() => koffi.proto('int', ['int', 'void *', 'void *']))

/** errno as the last foreign call left it; read it before the next one. */
export function errno(): number {
  return koffi.errno()
}

/**
 * The address of a buffer's first byte, to be stored in a C structure. The memory of a buffer does not move,
 * but lives only as long as the buffer: keep it referenced until the call that uses the address has returned.
 */
export function addressOf(buffer: Uint8Array): bigint {
  return koffi.address(buffer)
}

/** Foreign memory as an ArrayBuffer. Nothing keeps the memory alive: whoever unmaps it detaches the buffer first. */
export function viewOf(pointer: Pointer, length: number): ArrayBuffer {
  return koffi.view(pointer, length)
}

/** A watch on a file descriptor. */
export interface Watch {
  /** Whether the watch keeps the process alive; it does when new. */
  keepAlive(yes: boolean): void
  close(): void
}

/**
 * Calls back, on the event loop and without a thread, whenever the descriptor is readable.
 *
 * koffi calls from the middle of libuv's poll phase: an exception there would end the process and promises would
 * not be continued. So the callback runs as an immediate of its own, at most one at a time.
 */
export function watchReadable(fd: number, readable: () => void): Watch {
  let scheduled = false
  let closed = false
  const handle = koffi.node.poll(fd, { readable: true }, () => {
    if (scheduled || closed) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      if (!closed) readable()
    })
  })
  return {
    keepAlive: (yes) => {
      if (closed) return
      if (yes) handle.ref()
      else handle.unref()
    },
    close: () => {
      if (closed) return
      closed = true
      handle.stop()
      handle.close()
    },
  }
}

function bindAll<Bound>(
  library: string,
  signatures: Record<keyof Bound & string, Signature>,
  remedy: string,
): Bound {
  let handle: LibraryHandle
  try {
    handle = koffi.load(library)
  } catch (cause) {
    throw new LibraryError(library, `cannot be loaded: ${remedy}`, { cause })
  }
  const bound: Record<string, unknown> = {}
  for (const [name, signature] of Object.entries<Signature>(signatures)) {
    const [result, ...parameters] = signature
    try {
      bound[name] = handle.func(name, result, parameters)
    } catch (cause) {
      throw new LibraryError(library, `lacks the function ${name}: ${remedy}`, { cause })
    }
  }
  return bound as Bound
}

/** Structures are laid out by hand here, for 64-bit little-endian machines (x86-64, arm64, riscv64). */
function checkPlatform(): void {
  if (
    os.platform() !== 'linux' ||
    os.endianness() !== 'LE' ||
    !['x64', 'arm64', 'riscv64'].includes(os.arch())
  ) {
    throw new LibraryError(
      'libbpf-ts',
      `needs 64-bit little-endian Linux, this is ${os.platform()} on ${os.arch()}`,
    )
  }
}

/** A function that makes its result at the first call and returns the same one ever after. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
