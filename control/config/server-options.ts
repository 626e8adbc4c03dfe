/** The options about the daemon's servers: kube-proxy's, under their names. Pure: a text that does not fit throws a `Refusal`. */

import { parseAddress } from '../model/address.ts'
import { isPort } from '../model/port.ts'
import { Refusal } from './refusal.ts'

/** Where a server listens. */
export interface BindAddress {
  /** Canonical text; `0.0.0.0` and `::` mean every address of both families. */
  readonly address: string
  readonly port: number
}

export interface ServerOptions {
  /** Undefined: it is switched off. */
  readonly healthzBindAddress: BindAddress | undefined
  /** Likewise. */
  readonly metricsBindAddress: BindAddress | undefined
  /** A port that is taken ends the start. */
  readonly bindAddressHardFail: boolean
}

/** As commander hands them over: `off` for a server that is switched off, which undefined would not tell from absent. */
export interface ReadServerOptions {
  readonly healthzBindAddress: BindAddress | 'off'
  readonly metricsBindAddress: BindAddress | 'off'
  readonly bindAddressHardFail: boolean
}

export const DEFAULT_HEALTHZ: BindAddress = { address: '0.0.0.0', port: 10_256 }
export const DEFAULT_METRICS: BindAddress = { address: '127.0.0.1', port: 10_249 }

/** `ADDRESS:PORT`, an address alone, or `:PORT`; empty or port 0 switches the server off. */
export function parseBindAddress(text: string, defaultPort: number): BindAddress | 'off' {
  if (text === '') return 'off'
  const alone = parseAddress(text)
  if (alone !== undefined) return { address: alone.text, port: defaultPort }
  const [, bracketed, plain = '', digits = ''] = /^(?:\[(.*)\]|([^:]*)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  const address = host === '' ? '0.0.0.0' : parseAddress(host)?.text
  const port = Number(digits)
  const isWrong =
    digits === '' || address === undefined || address.includes(':') !== (bracketed !== undefined)
  if (isWrong || (port !== 0 && !isPort(port))) {
    throw new Refusal('It takes ADDRESS:PORT, such as 0.0.0.0:10256 or [::]:10256; empty switches it off.')
  }
  return port === 0 ? 'off' : { address, port }
}

/** A port; 0 switches its server off. */
export function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1
  if (port !== 0 && !isPort(port)) throw new Refusal('It takes a port; 0 switches the server off.')
  return port
}

export function serverOptions(read: ReadServerOptions): ServerOptions {
  const { healthzBindAddress: healthz, metricsBindAddress: metrics, bindAddressHardFail } = read
  return {
    healthzBindAddress: healthz === 'off' ? undefined : healthz,
    metricsBindAddress: metrics === 'off' ? undefined : metrics,
    bindAddressHardFail,
  }
}
