/** Events on the Node object of this node, or on a Service, for whoever looks with `kubectl describe`. */

import type { Clock } from '../../clock.ts'
import type { Logger } from '../../log.ts'
import type { ApiRequest } from '../requests.ts'
import { ApiConnection, type WritingConnection } from './connection.ts'
import { type CredentialOptions, CredentialReader } from './credentials.ts'
import { defaultTiming } from './timing.ts'

/** What happened. The words of `reason` and `action` are an interface, in CamelCase. */
export interface NodeEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  /** What was being done. */
  readonly action: string
  /** For people. */
  readonly note: string
  /** What it is about; undefined: the node itself. */
  readonly service?: { readonly namespace: string; readonly name: string }
}

export interface NodeEventsOptions {
  readonly nodeName: string
  /** Opened when there is something to tell. */
  readonly open: () => WritingConnection & { close(): Promise<void> }
  readonly clock: Clock
  readonly log: Pick<Logger, 'debug' | 'info'>
  /** Gives up what has not been told yet. */
  readonly signal: AbortSignal
}

/** As the API server checks it. */
const NOTE_MAX = 1024
/** Who writes them; kube-proxy's are from `kube-proxy`. */
const CONTROLLER = 'sluice'
/** Of an object that has no namespace itself. */
const NAMESPACE = 'default'

/** At most so many wait: whatever goes on, the API server is to have other work. */
const WAITING_MAX = 8
/** The same is not told again so soon. */
const QUIET_MS = 600_000
/** At least so long from one to the next, beyond the first few. */
const PAUSE_MS = 10_000
const BURST = 4
/** An answer may take so long. */
const ANSWER_MS = 10_000
/** After failures, one after the other; then it is given up: the log has it all. */
const RETRY_MS: readonly number[] = [1000, 5000, 30_000, 120_000]

/** How one try went. */
type Outcome = 'told' | 'later' | 'never'

/** For a daemon that follows a cluster: by the credentials that it reads with, over a connection of its own while there is one to tell. */
export function nodeEvents(
  credentials: Pick<CredentialOptions, 'kubeconfig' | 'apiServer'>,
  options: Omit<NodeEventsOptions, 'open'> & { readonly made?: (request: ApiRequest) => void },
): NodeEvents {
  return new NodeEvents({
    ...options,
    open: () => new ApiConnection(new CredentialReader(credentials), defaultTiming, options.made),
  })
}

export class NodeEvents {
  readonly #options: NodeEventsOptions
  readonly #waiting: NodeEvent[] = []
  /** When each was told last. */
  readonly #told = new Map<string, number>()
  #running: Promise<void> | undefined
  #count = 0

  constructor(options: NodeEventsOptions) {
    this.#options = options
  }

  /**
   * Never waits and never throws: what cannot be told hinders nothing. Returns whether it will be tried, or was lately: not
   * where too many others wait.
   */
  tell(event: NodeEvent): boolean {
    const { clock, log, signal } = this.#options
    const key = JSON.stringify(event)
    const before = this.#told.get(key)
    const isRepeated = before !== undefined && clock.nowMs() - before < QUIET_MS
    if (signal.aborted || isRepeated || this.#waiting.length >= WAITING_MAX) {
      log.debug('an event of the Node is not told', { reason: event.reason })
      return isRepeated
    }
    this.#told.set(key, clock.nowMs())
    this.#waiting.push(event)
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
    return true
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    await this.#running
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { open, log, signal } = this.#options
    try {
      const connection = open()
      try {
        for (let event = this.#waiting[0]; event !== undefined && !signal.aborted; event = this.#waiting[0]) {
          await this.#send(connection, event)
          this.#waiting.shift()
        }
      } finally {
        await connection.close()
      }
    } catch (error) {
      log.debug('cannot tell events of the Node', { err: error })
      this.#waiting.length = 0
    }
  }

  /** Tries it again and again, but not for ever. */
  async #send(connection: WritingConnection, event: NodeEvent): Promise<void> {
    if (++this.#count > BURST) await this.#pause(PAUSE_MS)
    const body = JSON.stringify(this.#objectOf(event))
    const path = `/apis/events.k8s.io/v1/namespaces/${event.service?.namespace ?? NAMESPACE}/events`
    for (const delayMs of [...RETRY_MS, 0]) {
      if (this.#options.signal.aborted) return
      if ((await this.#try(connection, path, body)) !== 'later') return
      if (delayMs > 0) await this.#pause(delayMs)
    }
    this.#options.log.info('an event of the Node could not be told', { reason: event.reason })
  }

  async #try(connection: WritingConnection, path: string, body: string): Promise<Outcome> {
    const { log, signal } = this.#options
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)])
      const answer = await connection.post(path, body, limit)
      for await (const _ of answer.body);
      const { status } = answer
      if (status < 300) return 'told'
      if (status === 401) answer.refuseCredentials()
      if (status === 401 || status === 429 || status >= 500) return 'later'
      log.info('the API server takes no events of the Node', { status })
      return 'never'
    } catch (error) {
      log.debug('no answer to an event of the Node', { err: error })
      return 'later'
    }
  }

  /** Of events.k8s.io/v1; without a UID of its own an object has its name, as kubelet and kube-proxy have it. */
  #objectOf({ type, reason, action, note, service }: NodeEvent): unknown {
    const { nodeName } = this.#options
    const regarding =
      service === undefined
        ? { kind: 'Node', name: nodeName, uid: nodeName }
        : { kind: 'Service', ...service, uid: `${service.namespace}/${service.name}` }
    const now = new Date()
    const serial = `${now.getTime().toString(16)}${this.#count.toString(16).padStart(4, '0')}`
    return {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: `${regarding.name}.${serial}`, namespace: service?.namespace ?? NAMESPACE },
      // To the microsecond, as the API server wants it.
      eventTime: now.toISOString().replace('Z', '000Z'),
      reportingController: CONTROLLER,
      reportingInstance: nodeName.slice(0, 128),
      regarding: { apiVersion: 'v1', ...regarding },
      type,
      reason,
      action,
      note: shortened(note),
    }
  }

  /** Shorter where the signal is aborted. */
  async #pause(delayMs: number): Promise<void> {
    const { clock, signal } = this.#options
    if (signal.aborted) return
    const over = Promise.withResolvers<void>()
    const timer = clock.setTimer(over.resolve, delayMs)
    signal.addEventListener('abort', () => over.resolve(), { once: true })
    await over.promise
    clock.clearTimer(timer)
  }
}

/** The limit is of bytes. */
function shortened(note: string): string {
  const bytes = Buffer.from(note)
  // A character that is cut in two becomes one that cannot be read, of as many bytes at most.
  return bytes.length <= NOTE_MAX ? note : bytes.subarray(0, NOTE_MAX - 2).toString('utf8')
}
