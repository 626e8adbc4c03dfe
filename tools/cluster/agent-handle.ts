/** The cluster's end of an agent: calls out, results back. */

import type { ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Call, OperationName, Operations, Result } from './agent-protocol.ts'
import { readLines } from './lines.ts'

interface Waiting {
  resolve(output: unknown): void
  reject(error: Error): void
}

/** An agent process that was started with pipes for its input and output. */
export class AgentHandle {
  readonly #member: string
  readonly #input: Writable
  readonly #waiting = new Map<number, Waiting>()
  #lastId = 0
  #ended: Error | undefined
  /** Resolves once the agent serves. */
  readonly ready: Promise<unknown>

  constructor(member: string, child: ChildProcessByStdio<Writable, Readable, null>) {
    this.#member = member
    this.#input = child.stdin
    this.ready = this.#expect(0)
    // The reason is in whatever awaits it; nobody may await it when the cluster goes down before.
    this.ready.catch(() => undefined)
    readLines(child.stdout, (line) => this.#receive(JSON.parse(line)))
    child.stdin.on('error', () => undefined)
    child.on('error', (error) => this.#end(error.message))
    child.on('exit', (code, signal) => this.#end(`it ended with ${signal ?? `exit code ${code}`}`))
  }

  /** Rejects when the operation could not be tried: unknown group, port in use, agent gone. */
  async call<Name extends OperationName>(
    operation: Name,
    input: Operations[Name]['input'],
  ): Promise<Operations[Name]['output']> {
    if (this.#ended !== undefined) throw this.#ended
    this.#lastId += 1
    const call: Call<Name> = { id: this.#lastId, operation, input }
    const output = this.#expect<Operations[Name]['output']>(call.id)
    this.#input.write(`${JSON.stringify(call)}\n`)
    return await output
  }

  /** Tells the agent to end. */
  close(): void {
    this.#input.end()
  }

  #expect<Output>(id: number): Promise<Output> {
    return new Promise<Output>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (output) => resolve(output as Output), reject })
    })
  }

  #receive(result: Result): void {
    const waiting = this.#waiting.get(result.id)
    this.#waiting.delete(result.id)
    if (result.ok) waiting?.resolve(result.output)
    else waiting?.reject(new Error(`agent of ${this.#member}: ${result.error}`))
  }

  #end(why: string): void {
    this.#ended ??= new Error(`agent of ${this.#member}: ${why}`)
    for (const waiting of this.#waiting.values()) waiting.reject(this.#ended)
    this.#waiting.clear()
  }
}
