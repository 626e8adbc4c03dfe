/** When new connections follow a change of their endpoints. Pure. */
import { FIRST_PROBED_ADDRESS, PROBED_STRIDE } from './protocol.ts'

/** Connections, each begun after the one before it had ended. */
export interface Connections {
  readonly beganUs: readonly number[]
  /** The address of the endpoint, as a number; negative: nobody answered. */
  readonly endpoint: readonly number[]
}

/**
 * For each change the milliseconds until all new connections follow it: until the first one begins after the last that
 * still meets an endpoint of before. Where none does it is the first connection after the change: what is returned is
 * never too little. A change after which nobody connected is left out.
 */
export function followMs(changedUs: readonly number[], { beganUs, endpoint }: Connections): number[] {
  const times: number[] = []
  let next = 0
  changedUs.forEach((atUs, change) => {
    const untilUs = changedUs[change + 1] ?? Number.POSITIVE_INFINITY
    while ((beganUs[next] ?? Number.POSITIVE_INFINITY) < atUs) next++
    let following = next
    for (let i = next; (beganUs[i] ?? Number.POSITIVE_INFINITY) < untilUs; i++) {
      if (versionOf(endpoint[i] ?? -1) < change) following = i + 1
    }
    const began = beganUs[following]
    if (began !== undefined) times.push((began - atUs) / 1000)
  })
  return times
}

/** The number of the change that brought an endpoint; -1: it was there before all of them, or is none. */
function versionOf(endpoint: number): number {
  return endpoint < FIRST_PROBED_ADDRESS ? -1 : Math.floor((endpoint - FIRST_PROBED_ADDRESS) / PROBED_STRIDE)
}
