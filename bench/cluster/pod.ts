/** The pod that connects to services. */
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { microseconds } from '../source-changes.ts'
import { SERVICE_PORT } from '../synthetic.ts'
import { type FromPod, numberOf, type ToPod } from './protocol.ts'

/** Of services that are to answer soon: a lost SYN is sent again by a new connection. */
const IMPATIENT_MS = 100
const PATIENT_MS = 5000
const AT_ONCE = 32

/** The address of the endpoint that answers; undefined when nobody does. */
function ask(address: string, timeoutMs: number, localAddress?: string): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const from = localAddress === undefined ? {} : { localAddress }
  const socket = connect({ host: address, port: SERVICE_PORT, ...from })
  socket.setTimeout(timeoutMs, () => end(undefined))
  const end = (said: string | undefined): void => {
    resolve(said)
    // Nothing of it is left that a later connection could meet.
    socket.resetAndDestroy()
  }
  socket.on('data', (data) => end(data.toString()))
  socket.on('error', () => end(undefined))
  socket.on('close', () => end(undefined))
  return promise
}

async function awaitAnswer(address: string, everyMs: number): Promise<number> {
  for (;;) {
    const began = microseconds()
    if ((await ask(address, IMPATIENT_MS)) !== undefined) return microseconds()
    await delay(Math.max(0, everyMs - (microseconds() - began) / 1000))
  }
}

async function sweep(addresses: readonly string[]): Promise<FromPod> {
  const failed: string[] = []
  const endpoints = new Set<string>()
  const left = addresses.values()
  const one = async (): Promise<void> => {
    for (const address of left) {
      const said = await ask(address, PATIENT_MS)
      if (said === undefined) failed.push(address)
      else endpoints.add(said)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, one))
  return { kind: 'swept', failed, endpoints: endpoints.size }
}

class Pod {
  #isFollowing = false

  /** Undefined: nothing is to be said. */
  async act(message: ToPod): Promise<FromPod | undefined> {
    switch (message.kind) {
      case 'await': {
        const { addresses, everyMs } = message
        const atUs = await Promise.all(addresses.map((address) => awaitAnswer(address, everyMs)))
        return { kind: 'answered', atUs }
      }
      case 'sweep':
        return await sweep(message.addresses)
      case 'speak': {
        const said = await Promise.all(
          message.calls.map(({ address, localAddress }) => ask(address, PATIENT_MS, localAddress)),
        )
        return { kind: 'spoken', failed: said.filter((each) => each === undefined).length }
      }
      case 'follow':
        return await this.#follow(message.address)
      case 'stop':
        this.#isFollowing = false
        return undefined
    }
  }

  async #follow(address: string): Promise<FromPod> {
    const beganUs: number[] = []
    const endpoint: number[] = []
    this.#isFollowing = true
    while (this.#isFollowing) {
      beganUs.push(microseconds())
      const said = await ask(address, PATIENT_MS)
      endpoint.push(said === undefined ? -1 : numberOf(said))
    }
    return { kind: 'followed', beganUs, endpoint }
  }
}

function tell(message: FromPod | undefined): void {
  if (message !== undefined) process.send?.(message)
}

const pod = new Pod()
process.on('disconnect', () => process.exit())
process.on('message', (message: ToPod) => void pod.act(message).then(tell))
tell({ kind: 'ready' })
