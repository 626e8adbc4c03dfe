/**
 * The one process that runs in each namespace of the little cluster: serves on the ports it was told,
 * makes requests on command. It ends with its standard input, so it never outlives the cluster.
 */

import type { Client } from './agent-client.ts'
import { createClient } from './agent-client.ts'
import { Load } from './agent-load.ts'
import type {
  AgentOptions,
  Answer,
  Call,
  OpenInput,
  OperationName,
  Operations,
  RequestInput,
  Result,
  ServeInput,
} from './agent-protocol.ts'
import type { Listener } from './agent-server.ts'
import { listen } from './agent-server.ts'
import { readLines } from './lines.ts'

const OPEN_AT_ONCE = 64
/** Below the node ports and the ports that the kernel gives out. */
const OWN_PORTS = { first: 20_000, count: 10_000 }

type Handlers = {
  [Name in OperationName]: (input: Operations[Name]['input']) => Promise<Operations[Name]['output']>
}

class Agent {
  readonly #name: string
  readonly #listeners = new Map<string, Listener>()
  readonly #groups = new Map<number, Client[]>()
  readonly #loads = new Map<number, Load>()
  #lastId = 0
  #portsUsed = 0

  constructor(name: string) {
    this.#name = name
  }

  readonly handlers: Handlers = {
    request: (input) => this.#request(input),
    open: (input) => this.#open(input),
    exchange: async ({ group, timeoutMs }) =>
      await Promise.all(known(this.#groups, group, 'group').map((client) => client.ask(timeoutMs))),
    close: async ({ group, reset }) => {
      for (const client of known(this.#groups, group, 'group')) client.close({ reset: reset ?? false })
      this.#groups.delete(group)
      return null
    },
    load: async (input) => {
      this.#lastId += 1
      this.#loads.set(this.#lastId, new Load(input))
      return this.#lastId
    },
    report: async ({ load, moreAnswers, timeoutMs }) =>
      await known(this.#loads, load, 'load').reportAfter(moreAnswers ?? 0, timeoutMs),
    unload: async ({ load }) => {
      const ended = known(this.#loads, load, 'load')
      this.#loads.delete(load)
      return await ended.end()
    },
    serve: async (input) => {
      this.#listeners.set(listenerKey(input), await listen(this.#name, input))
      return null
    },
    unserve: async (input) => {
      known(this.#listeners, listenerKey(input), 'listener').close()
      this.#listeners.delete(listenerKey(input))
      return null
    },
  }

  async #open(input: OpenInput): Promise<Operations['open']['output']> {
    const opened = await repeat(input.count ?? 1, input.concurrency ?? OPEN_AT_ONCE, async () => {
      const client = createClient(input)
      const answer = await client.ask()
      if (!answer.ok) client.close()
      return { client, answer }
    })
    this.#lastId += 1
    this.#groups.set(
      this.#lastId,
      opened.filter(({ answer }) => answer.ok).map(({ client }) => client),
    )
    return { group: this.#lastId, answers: opened.map(({ answer }) => answer) }
  }

  async #request(input: RequestInput): Promise<readonly Answer[]> {
    const shared = input.sameSocket === true ? createClient(input) : undefined
    const answers = await repeat(input.count ?? 1, shared ? 1 : (input.concurrency ?? 1), async () => {
      const client = shared ?? createClient({ localPort: this.#freshPort(), ...input })
      const answer = await client.ask()
      if (client !== shared) client.close({ reset: input.reset ?? false })
      return answer
    })
    shared?.close()
    return answers
  }

  /** A port that no earlier request came from: what is left of an earlier connection then decides nothing. */
  #freshPort(): number {
    this.#portsUsed += 1
    return OWN_PORTS.first + (this.#portsUsed % OWN_PORTS.count)
  }
}

/** Does something `count` times, at most `concurrency` at a time. The results are in the order of the starts. */
async function repeat<T>(count: number, concurrency: number, work: () => Promise<T>): Promise<T[]> {
  const results: T[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next
      next += 1
      results[index] = await work()
    }
  }
  await Promise.all(Array.from({ length: Math.min(count, concurrency) }, worker))
  return results
}

function known<Key, Value>(map: ReadonlyMap<Key, Value>, key: Key, kind: string): Value {
  const value = map.get(key)
  if (value === undefined) throw new Error(`no ${kind} ${String(key)} is open here`)
  return value
}

function listenerKey(input: ServeInput): string {
  return `${input.protocol} ${input.address ?? '*'} ${input.port}`
}

function send(result: Result): void {
  process.stdout.write(`${JSON.stringify(result)}\n`)
}

async function handle<Name extends OperationName>(agent: Agent, call: Call<Name>): Promise<void> {
  try {
    send({ id: call.id, ok: true, output: await agent.handlers[call.operation](call.input) })
  } catch (error) {
    send({ id: call.id, ok: false, error: error instanceof Error ? error.message : String(error) })
  }
}

async function main(options: AgentOptions): Promise<void> {
  const agent = new Agent(options.name)
  for (const input of options.serve) await agent.handlers.serve(input)
  readLines(process.stdin, (line) => {
    const call: Call = JSON.parse(line)
    void handle(agent, call)
  })
  process.stdin.on('end', () => process.exit(0))
  send({ id: 0, ok: true, output: null })
}

await main(JSON.parse(process.argv[2] ?? ''))
