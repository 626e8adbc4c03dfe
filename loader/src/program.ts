/** A loaded program. What it asks for is done by the kernel, or by a fake of it. */
import { Handle, type HandleCalls } from './handle.ts'
import type { ProgramType } from './uapi.ts'

export interface TestRunOptions {
  /** The packet, for the types that have one. */
  readonly data?: Uint8Array
  /** The context: `struct __sk_buff`, `struct xdp_md`, or what a syscall program takes. */
  readonly context?: Uint8Array
  /** How often the program runs, each time on what the run before left; 1 when left out. */
  readonly repeat?: number
  /**
   * The packet comes with the sum over it, as from a NIC that sums up (CHECKSUM_COMPLETE); a program that does not keep
   * the sum right fails with EBADMSG. Kernel 6.17; EINVAL before.
   */
  readonly checksumComplete?: boolean
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

/** What a loaded program is. */
export interface ProgramInfo {
  readonly name: string
  readonly type: ProgramType
  readonly id: number
  readonly tag: string
  readonly instructions: number
  readonly verifiedInstructions: number
}

/** The calls that a program is made of: those of bpf(2), or those of a fake. They throw BpfError. */
export interface ProgramCalls extends HandleCalls {
  testRun(options: TestRunOptions): TestRunResult
}

/** A program in the kernel. Every method throws BpfError when the kernel refuses, and when the program is closed. */
export class BpfProgram extends Handle<ProgramCalls> {
  readonly type: ProgramType
  /** The kernel's id, as `bpftool prog` prints it. */
  readonly id: number
  /** Hash over the instructions, in hexadecimal: equal for equal programs. */
  readonly tag: string
  /** Length in the kernel's instructions, after the verifier's rewriting; 0 where the kernel does not tell. */
  readonly instructions: number
  /** Instructions that the verifier walked through (kernel 5.16), else 0. */
  readonly verifiedInstructions: number

  /** `loadObject` and `openPinnedProgram` are the ways to one. */
  constructor(info: ProgramInfo, calls: ProgramCalls) {
    super('program', info.name, calls)
    this.type = info.type
    this.id = info.id
    this.tag = info.tag
    this.instructions = info.instructions
    this.verifiedInstructions = info.verifiedInstructions
  }

  /**
   * Runs the program once or more on made-up input (`BPF_PROG_TEST_RUN`; socket filter, tc, XDP, cgroup skb and
   * others; syscall programs take a context only, and run once). Types without test runs throw ENOTSUPP.
   */
  testRun(options: TestRunOptions = {}): TestRunResult {
    return this.open.testRun(options)
  }
}
