/** What the processes of this measurement tell each other. Times are microseconds of the machine's monotonic clock. */

/** To the API server. */
export type ToApi =
  /** Let endpoints move, at a steady pace; of every `probedEach`-th change it is the probed service whose all move. */
  {
    readonly kind: 'change'
    readonly perSecond: number
    readonly seconds: number
    readonly probedEach: number
  }

export type FromApi =
  | { readonly kind: 'listening' }
  /** When each change of the probed service was made. */
  | { readonly kind: 'changed'; readonly probedUs: readonly number[] }

/** To the pod that connects. */
export type ToPod =
  /** Connects to each until it answers. */
  | { readonly kind: 'await'; readonly addresses: readonly string[]; readonly everyMs: number }
  /** Connects to each once. */
  | { readonly kind: 'sweep'; readonly addresses: readonly string[] }
  /** Connects from each of the addresses that the pod has just got. */
  | { readonly kind: 'speak'; readonly calls: readonly Call[] }
  /** Connects to one, again and again, until `stop`. */
  | { readonly kind: 'follow'; readonly address: string }
  | { readonly kind: 'stop' }

/** One connection: to whom, and from where. */
export interface Call {
  readonly address: string
  readonly localAddress: string
}

export type FromPod =
  | { readonly kind: 'ready' }
  /** When each answered first, in their order. */
  | { readonly kind: 'answered'; readonly atUs: readonly number[] }
  | { readonly kind: 'swept'; readonly failed: readonly string[]; readonly endpoints: number }
  /** How many of the calls nobody answered. */
  | { readonly kind: 'spoken'; readonly failed: number }
  /** Each connection: when it began, and the endpoint that answered, as a number; -1: nobody. */
  | { readonly kind: 'followed'; readonly beganUs: readonly number[]; readonly endpoint: readonly number[] }

/** From the process in whose namespace all endpoints are. */
export interface FromEndpoints {
  readonly kind: 'listening'
}

/** A turn of the event loop that took long. */
export interface Block {
  /** When it ended. */
  readonly atUs: number
  readonly ms: number
  /** For how long of that it had a CPU: the rest others had. */
  readonly cpuMs: number
}

/** What is seen inside of the daemon. */
export interface Observed {
  /** When the process began. */
  readonly startedUs: number
  /** When bytes arrived from the API server, until there were very many of them. */
  readonly arrivedUs: readonly number[]
  readonly blocks: readonly Block[]
}

/** Services and endpoints of a measurement. */
export interface ClusterSize {
  readonly services: number
  readonly endpoints: number
}

/** The number of the service whose endpoints are watched. */
export const PROBED = 1

/** Endpoints of changed slices have addresses from here on: sixteen of the probed service by change. */
export const FIRST_PROBED_ADDRESS = 0x0b00_0000
export const PROBED_STRIDE = 16
/** And one each of the others. */
export const FIRST_OTHER_ADDRESS = 0x0c00_0000

/** An IPv4 address as a number. */
export function numberOf(address: string): number {
  return address.split('.').reduce((value, byte) => value * 256 + Number(byte), 0)
}
