/** The servers and clients of a soak: programs of C in the members of the cluster, and what they say. */

import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { readLines } from '../cluster/lines.ts'
import type { Member } from '../cluster/member.ts'
import { until } from '../cluster/until.ts'
import type { Book, Group, Traffic } from './book.ts'

const PROGRAMS = ['serve', 'ask', 'stream', 'hold'] as const
const FLAGS = ['-O2', '-Wall', '-Wextra', '-Werror']
/** Far beyond what anything takes: for telling a failure. */
const LIMIT_MS = 60_000

/** Where the programs are. */
export type Programs = Readonly<Record<(typeof PROGRAMS)[number] | 'flood', string>>

/** Compiles them into the folder. Needs clang. Throws when it does not compile one. */
export function compilePrograms(folder: string): Programs {
  const compile = (source: string, name: string): [string, string] => {
    execFileSync('clang', [...FLAGS, join(import.meta.dirname, source), '-o', join(folder, name)])
    return [name, join(folder, name)]
  }
  const own = PROGRAMS.map((name) => compile(`peers/${name}.c`, name))
  return Object.fromEntries([...own, compile('../scenarios/flood.c', 'flood')]) as Programs
}

/** Where a client goes, and who may answer there. */
export interface Target {
  readonly to: string
  readonly group: Group
}

/** A server process. */
export class Server {
  readonly number: number
  readonly #child: ChildProcess
  #open = 0
  #datagrams = 0
  #isReady = false
  #isEnded = false

  constructor(program: string, member: Member, number: number, port: number) {
    this.number = number
    this.#child = member.spawn([program, String(number), String(port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#child.once('exit', () => {
      this.#isEnded = true
    })
    if (this.#child.stdout === null) throw new Error('the server was started without pipes')
    readLines(this.#child.stdout, (line) => this.#hear(line))
  }

  /** Connections that are open, as it last said. */
  get open(): number {
    return this.#open
  }

  /** Datagrams it has answered, as it last said. */
  get datagrams(): number {
    return this.#datagrams
  }

  async ready(): Promise<void> {
    await until(async () => this.#isReady || this.#isEnded, LIMIT_MS)
    if (!this.#isReady) throw new Error(`server ${this.number} does not serve`)
  }

  async stop(): Promise<void> {
    if (this.#isEnded) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  #hear(line: string): void {
    const [, open, datagrams] = /^open (\d+) datagrams (\d+)$/.exec(line) ?? []
    if (line === 'ready') this.#isReady = true
    else if (open === undefined) throw new Error(`a server said ${line}`)
    else [this.#open, this.#datagrams] = [Number(open), Number(datagrams)]
  }
}

/** What a client has done so far. */
export interface Progress {
  readonly offered: number
  readonly answered: number
  readonly slow: number
  readonly open: number
}

/** A client process: asks, downloads, or sends datagrams; what it says goes into the book. */
export class Client {
  readonly name: string
  readonly #book: Book
  readonly #traffic: Traffic
  readonly #targets: readonly Target[]
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  progress: Progress = { offered: 0, answered: 0, slow: 0, open: 0 }
  #isStopping = false

  constructor(
    book: Book,
    member: Member,
    traffic: Traffic,
    targets: readonly Target[],
    argv: readonly [string, ...string[]],
  ) {
    this.name = `${member.name} by ${traffic}`
    this.#book = book
    this.#traffic = traffic
    this.#targets = targets
    this.#child = member.spawn([...argv, ...targets.map(({ to }) => to)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#ended = once(this.#child, 'exit').then(([code, signal]) => {
      if (this.#isStopping && code === 0) return
      book.failed(this.name, `the client ended with ${code ?? signal}`, Date.now(), Date.now())
    })
    if (this.#child.stdout === null) throw new Error('the client was started without pipes')
    readLines(this.#child.stdout, (line) => this.#hear(line))
  }

  /** Begins nothing more; resolves when all that is under way has ended. */
  async finish(): Promise<void> {
    this.#isStopping = true
    this.#child.kill('SIGTERM')
    await this.#ended
  }

  #hear(line: string): void {
    const [kind = '', ...words] = line.split(' ')
    const [a = 0, b = 0, c = 0, d = 0, e = 0] = words.map(Number)
    if (kind === 'from') this.#book.went(this.#traffic, this.#group(b), a, c, d, this.#who(b))
    else if (kind === 'failed') this.#book.failed(this.#who(c, d, e), words[5] ?? '', a, b)
    else if (kind === 'so') this.#count(words.slice(1).map(Number))
  }

  #count([offered = 0, answered = 0, slow = 0, open = 0]: readonly number[]): void {
    this.progress = { offered, answered, slow, open }
  }

  #group(target: number): Group {
    return this.#targets[target]?.group ?? 'web'
  }

  #who(target: number, server = 0, port = 0): string {
    const from = port === 0 ? '' : ` from port ${port}`
    const by = server === 0 ? '' : `, with server ${server}`
    return `${this.name}${from} to ${this.#targets[target]?.to}${by}`
  }
}

/** What a holder of connections has. */
export interface Held {
  readonly held: number
  readonly refused: number
  readonly lost: number
}

/** A client that opens many connections and holds them. */
export class Holder implements AsyncDisposable {
  readonly #book: Book
  readonly #who: string
  readonly #child: ChildProcess
  readonly #heard: Held[] = []
  #isEnded = false

  constructor(book: Book, member: Member, program: string, count: number, target: string) {
    this.#book = book
    this.#who = `${member.name} holding connections to ${target}`
    this.#child = member.spawn([program, String(count), '256', '30000', target], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child.once('exit', () => {
      this.#isEnded = true
    })
    if (this.#child.stdout === null) throw new Error('the holder was started without pipes')
    readLines(this.#child.stdout, (line) => this.#hear(line))
  }

  /** Once all are opened. */
  async opened(): Promise<Held> {
    return await this.#told(1)
  }

  /** Asks on every connection that it holds; once all of them have answered. */
  async ask(): Promise<Held> {
    const before = this.#heard.length
    this.#child.stdin?.write('ask\n')
    return await this.#told(before + 1)
  }

  /** Resets all of them. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin?.end()
    await until(async () => this.#isEnded, LIMIT_MS)
  }

  async #told(times: number): Promise<Held> {
    await until(async () => this.#heard.length >= times || this.#isEnded, 2 * LIMIT_MS)
    const held = this.#heard[times - 1]
    if (held === undefined) throw new Error(`${this.#who}: it does not say how many`)
    return held
  }

  #hear(line: string): void {
    const [kind = '', ...words] = line.split(' ')
    const [a = 0, b = 0, c = 0, d = 0] = words.map(Number)
    if (kind === 'held') this.#heard.push({ held: a, refused: c, lost: Number(words[4]) })
    else if (kind === 'refused') this.#book.failed(this.#who, 'ECONNREFUSED', a, a, b)
    else if (kind === 'failed') this.#book.failed(`${this.#who}, with server ${d}`, words[5] ?? '', a, b)
  }
}
