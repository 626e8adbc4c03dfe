/** A loaded program. */
import { Descriptor, infoName, objectInfo, openExistingPin, pinDescriptor, removePin } from './descriptor.ts'
import { BpfError } from './errors.ts'
import { addressOf, libbpf } from './ffi.ts'
import { type ProgramType, programTypeName } from './uapi.ts'

const TEST_RUN_OPTIONS_SIZE = 80
/** Room for a program that makes a packet longer. */
const OUTPUT_ROOM = 512

export interface TestRunOptions {
  /** The packet, for the types that have one. */
  readonly data?: Uint8Array
  /** The context: `struct __sk_buff`, `struct xdp_md`, or what a syscall program takes. */
  readonly context?: Uint8Array
  /** How often the program runs, each time on what the run before left; 1 when left out. */
  readonly repeat?: number
  /** Bytes to keep of the packet afterwards; the packet's length and 512 when left out. */
  readonly dataOutSize?: number
}

export interface TestRunResult {
  /** What the program returned, of the last run. */
  readonly returnValue: number
  /** The packet afterwards. */
  readonly data: Uint8Array
  /** The context afterwards. */
  readonly context: Uint8Array
  /** Average of a run. */
  readonly durationNs: number
}

/** A program in the kernel. Every method throws BpfError when the kernel refuses, and when the program is closed. */
export class BpfProgram implements Disposable {
  /** As in the object it came from, else as the kernel has it (15 characters). */
  readonly name: string
  readonly type: ProgramType
  /** The kernel's id, as `bpftool prog` prints it. */
  readonly id: number
  /** Hash over the instructions, in hexadecimal: equal for equal programs. */
  readonly tag: string
  /** Length in the kernel's instructions, after the verifier's rewriting; 0 where the kernel does not tell. */
  readonly instructions: number
  /** Instructions that the verifier walked through (kernel 5.16), else 0. */
  readonly verifiedInstructions: number
  readonly #descriptor: Descriptor

  /** Takes over a descriptor of a program; `loadObject` and `openPinnedProgram` are the usual ways to one. */
  constructor(fd: number, name?: string) {
    const info = objectInfo(fd, `program ${name ?? fd}`)
    this.type = programTypeName(info.getUint32(0, true))
    this.id = info.getUint32(4, true)
    this.tag = Buffer.from(info.buffer, 8, 8).toString('hex')
    this.instructions = info.getUint32(20, true) / 8
    this.name = name ?? infoName(info, 64)
    this.verifiedInstructions = info.getUint32(216, true)
    this.#descriptor = new Descriptor(fd, `program ${this.name}`)
  }

  get fd(): number {
    return this.#descriptor.fd
  }

  /**
   * Runs the program once or more on made-up input (`BPF_PROG_TEST_RUN`; socket filter, tc, XDP, cgroup skb and
   * others; syscall programs take a context only, and run once). Types without test runs throw ENOTSUPP.
   */
  testRun(options: TestRunOptions = {}): TestRunResult {
    const { data, repeat = 1 } = options
    const isSyscall = this.type === 'syscall'
    const context = options.context?.slice()
    const dataOut =
      data === undefined ? undefined : new Uint8Array(options.dataOutSize ?? data.length + OUTPUT_ROOM)
    // A syscall program writes to the context it is given and takes no second one (kernel 5.14).
    const contextOut = context === undefined || isSyscall ? undefined : new Uint8Array(context.length)

    const bytes = new Uint8Array(TEST_RUN_OPTIONS_SIZE)
    const view = new DataView(bytes.buffer)
    const setBuffer = (pointerAt: number, sizeAt: number, buffer: Uint8Array | undefined) => {
      if (buffer === undefined || buffer.length === 0) return
      view.setBigUint64(pointerAt, addressOf(buffer), true)
      view.setUint32(sizeAt, buffer.length, true)
    }
    view.setBigUint64(0, BigInt(TEST_RUN_OPTIONS_SIZE), true)
    setBuffer(8, 24, data)
    setBuffer(16, 28, dataOut)
    setBuffer(32, 48, context)
    setBuffer(40, 52, contextOut)
    view.setInt32(60, isSyscall ? 0 : repeat, true)

    const result = libbpf().bpf_prog_test_run_opts(this.fd, bytes)
    if (result < 0) throw this.#testRunError(result, view.getUint32(28, true))
    return {
      returnValue: view.getUint32(56, true),
      data: (dataOut ?? new Uint8Array()).subarray(0, view.getUint32(28, true)),
      context: contextOut?.subarray(0, view.getUint32(52, true)) ?? context ?? new Uint8Array(),
      durationNs: view.getUint32(64, true),
    }
  }

  #testRunError(result: number, needed: number): BpfError {
    const detail =
      result === -28 ? `the packet grew to ${needed} bytes: give a larger dataOutSize` : undefined
    return new BpfError('test run', `program ${this.name}`, result, detail)
  }

  /** Pins the program, so that it outlives the process. */
  pin(path: string): void {
    pinDescriptor(this.fd, path, `program ${this.name}`)
  }

  /** Removes a pin; false when there was none. */
  unpin(path: string): boolean {
    return removePin(path)
  }

  /** Closes the descriptor; links and prog arrays keep the program loaded. A second call does nothing. */
  close(): void {
    this.#descriptor.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/** Opens a pinned program. Throws BpfError, with `errnoName` ENOENT when nothing is pinned there. */
export function openPinnedProgram(path: string): BpfProgram {
  return new BpfProgram(openExistingPin(path, 'program'))
}
