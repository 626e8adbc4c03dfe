/** Programs of the fake kernel: they are loaded by name, and run nothing but what a test gives them. */
import { createHash } from 'node:crypto'
import { BpfError } from './errors.ts'
import type { FakePins } from './fake-pins.ts'
import type { BpfObject } from './object.ts'
import type { ProgramCalls, ProgramInfo, TestRunOptions, TestRunResult } from './program.ts'
import type { ProgramSpec } from './spec.ts'

const ENOTSUPP = 524

/**
 * What a program does in a test run. `data` and `context` are copies that it may change; they are the answer, and 0 what
 * it returned, unless the result says otherwise. The object is the one that it was loaded with, its maps to read and write.
 */
export type FakeTestRun = (options: TestRunOptions, object: BpfObject) => Partial<TestRunResult>

/** A program: what all descriptors of it share. */
export interface FakeProgram {
  readonly kind: 'program'
  readonly info: ProgramInfo
  /** Undefined when the test gave it nothing to do. */
  readonly run: ((options: TestRunOptions) => Partial<TestRunResult>) | undefined
}

/** What the kernel would say of it, as far as that can be known without the verifier. */
export function fakeProgramInfo(spec: ProgramSpec, id: number, code: Uint8Array): ProgramInfo {
  const { name, type, instructions } = spec
  const tag = createHash('sha1').update(code).update(name).digest('hex').slice(0, 16)
  return { name, type, id, tag, instructions, verifiedInstructions: 0 }
}

export class FakeProgramCalls implements ProgramCalls {
  readonly fd: number
  readonly #program: FakeProgram
  readonly #pins: FakePins
  readonly #release: () => void

  /** @param release Gives the descriptor back. */
  constructor(program: FakeProgram, fd: number, pins: FakePins, release: () => void) {
    this.#program = program
    this.fd = fd
    this.#pins = pins
    this.#release = release
  }

  testRun(options: TestRunOptions): TestRunResult {
    const { run, info } = this.#program
    if (run === undefined) {
      const detail = 'the fake runs no programs: give it what this one does'
      throw new BpfError('test run', `program ${info.name}`, ENOTSUPP, detail)
    }
    const data = new Uint8Array(options.data ?? [])
    const context = new Uint8Array(options.context ?? [])
    const copies = {
      ...(options.data === undefined ? {} : { data }),
      ...(options.context === undefined ? {} : { context }),
    }
    return { returnValue: 0, data, context, durationNs: 0, ...run({ ...options, ...copies }) }
  }

  pin(path: string): void {
    this.#pins.pin(path, this.#program, `program ${this.#program.info.name}`)
  }

  unpin(path: string): boolean {
    return this.#pins.unpin(path)
  }

  close(): void {
    this.#release()
  }
}
