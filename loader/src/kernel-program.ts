/** Programs of the kernel, by way of libbpf. */
import { Descriptor, infoName, objectInfo, openExistingPin, pinDescriptor, removePin } from './descriptor.ts'
import { BpfError } from './errors.ts'
import { addressOf, libbpf } from './ffi.ts'
import {
  BpfProgram,
  type ProgramCalls,
  type ProgramInfo,
  type TestRunOptions,
  type TestRunResult,
} from './program.ts'
import { programTypeName } from './uapi.ts'

/** Of `bpf_test_run_opts.flags`. */
const BPF_F_TEST_SKB_CHECKSUM_COMPLETE = 1 << 2
const TEST_RUN_OPTIONS_SIZE = 80
/** Room for a program that makes a packet longer. */
const OUTPUT_ROOM = 512

/** Opens a pinned program. Throws BpfError, with `errnoName` ENOENT when nothing is pinned there. */
export function openPinnedProgram(path: string): BpfProgram {
  return programOfDescriptor(openExistingPin(path, 'program'))
}

/** Takes over a descriptor of a program. The name is the kernel's unless another is given. */
export function programOfDescriptor(fd: number, name?: string): BpfProgram {
  const info = programInfo(fd, name)
  return new BpfProgram(info, new KernelProgramCalls(fd, info))
}

function programInfo(fd: number, name: string | undefined): ProgramInfo {
  const info = objectInfo(fd, `program ${name ?? fd}`)
  return {
    name: name ?? infoName(info, 64),
    type: programTypeName(info.getUint32(0, true)),
    id: info.getUint32(4, true),
    tag: Buffer.from(info.buffer, 8, 8).toString('hex'),
    instructions: info.getUint32(20, true) / 8,
    verifiedInstructions: info.getUint32(216, true),
  }
}

class KernelProgramCalls implements ProgramCalls {
  readonly fd: number
  readonly #isSyscall: boolean
  readonly #subject: string
  readonly #descriptor: Descriptor

  constructor(fd: number, { name, type }: ProgramInfo) {
    this.fd = fd
    this.#isSyscall = type === 'syscall'
    this.#subject = `program ${name}`
    this.#descriptor = new Descriptor(fd, this.#subject)
  }

  testRun(options: TestRunOptions): TestRunResult {
    const { data, repeat = 1 } = options
    const context = options.context?.slice()
    const dataOut =
      data === undefined ? undefined : new Uint8Array(options.dataOutSize ?? data.length + OUTPUT_ROOM)
    // A syscall program writes to the context it is given and takes no second one (kernel 5.14).
    const contextOut = context === undefined || this.#isSyscall ? undefined : new Uint8Array(context.length)

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
    view.setInt32(60, this.#isSyscall ? 0 : repeat, true)

    if (options.checksumComplete) view.setUint32(68, BPF_F_TEST_SKB_CHECKSUM_COMPLETE, true)

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
    return new BpfError('test run', this.#subject, result, detail)
  }

  pin(path: string): void {
    pinDescriptor(this.fd, path, this.#subject)
  }

  unpin(path: string): boolean {
    return removePin(path)
  }

  close(): void {
    this.#descriptor.close()
  }
}
