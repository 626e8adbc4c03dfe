/** What open maps and programs have in common: a descriptor, pins, and an end. */
import { BpfError } from './errors.ts'

const EBADF = 9

/** The calls behind it: those of bpf(2), or those of a fake. They throw BpfError. */
export interface HandleCalls {
  readonly fd: number
  pin(path: string): void
  unpin(path: string): boolean
  /** Called once. */
  close(): void
}

/** Something of the kernel's that is open until it is closed. */
export abstract class Handle<Calls extends HandleCalls> implements Disposable {
  /** As in the object it came from, else as the kernel has it (15 characters). */
  readonly name: string
  readonly #what: string
  readonly #calls: Calls
  #isClosed = false

  /** @param what the word for it in errors */
  constructor(what: string, name: string, calls: Calls) {
    this.name = name
    this.#what = what
    this.#calls = calls
  }

  get fd(): number {
    return this.open.fd
  }

  /** Pins it, so that it outlives the process. Throws BpfError. */
  pin(path: string): void {
    this.open.pin(path)
  }

  /** Removes a pin; false when there was none. What it was the pin of lives on while anything else holds it. */
  unpin(path: string): boolean {
    return this.#calls.unpin(path)
  }

  /** Closes the descriptor; what the kernel holds by itself stays. A second call does nothing. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#calls.close()
  }

  [Symbol.dispose](): void {
    this.close()
  }

  /** The calls, while it is open. Throws BpfError when it is closed. */
  protected get open(): Calls {
    if (this.#isClosed) throw new BpfError('use', `${this.#what} ${this.name}`, EBADF, 'it is closed')
    return this.#calls
  }
}
