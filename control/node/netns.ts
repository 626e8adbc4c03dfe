/**
 * The network namespaces of the pods of this node: container runtimes bind each to a file in one folder. Which pod's it
 * is, the addresses in it tell; by its cookie the programs know it.
 */

import { readdirSync, statSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { BpfError, inNetworkNamespace, netnsCookie } from 'libbpf-ts'

/** A network namespace. */
export interface Netns {
  readonly path: string
  readonly cookie: bigint
  /** Canonical texts, but for loopback and link-local ones. Empty until it has been given one. */
  readonly addresses: readonly string[]
}

/** Looks into one namespace. Throws what `inNetworkNamespace` does. */
export type NetnsLook = (path: string) => Pick<Netns, 'cookie' | 'addresses'>

export class NetnsFolder {
  readonly #folder: string
  readonly #look: NetnsLook
  /** By the inode, which is the namespace's own: a file may be another one's tomorrow. */
  #known = new Map<bigint, Netns>()

  constructor(folder: string, look: NetnsLook = lookInto) {
    this.#folder = folder
    this.#look = look
  }

  /**
   * Those that are there now. Each is entered once, and again while it has no address: some hundred microseconds. Throws
   * BpfError when this process may not enter them (EPERM: it takes SYS_ADMIN).
   */
  list(): readonly Netns[] {
    const found = new Map<bigint, Netns>()
    for (const name of namesIn(this.#folder)) {
      const path = join(this.#folder, name)
      const inode = inodeOf(path)
      if (inode === undefined) continue
      const known = this.#known.get(inode)
      const netns =
        known === undefined || known.addresses.length === 0 ? this.#enter(path) : { ...known, path }
      if (netns !== undefined) found.set(inode, netns)
    }
    this.#known = found
    return [...found.values()]
  }

  /** The file of the namespace of this cookie; undefined when there is none. Throws as `list`. */
  find(cookie: bigint): string | undefined {
    return this.list().find((netns) => netns.cookie === cookie)?.path
  }

  /** Undefined when it is gone, or not (yet) a namespace: the file comes first. */
  #enter(path: string): Netns | undefined {
    try {
      return { path, ...this.#look(path) }
    } catch (error) {
      if (isErrno(error, 'ENOENT') || (error instanceof BpfError && error.errnoName === 'EINVAL'))
        return undefined
      throw error
    }
  }
}

function lookInto(path: string): Pick<Netns, 'cookie' | 'addresses'> {
  return inNetworkNamespace(path, () => ({ cookie: netnsCookie() ?? 0n, addresses: ownAddresses() }))
}

/** Of the namespace that this thread is in. */
function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .map(({ address }) => address)
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    // The runtime makes it with the first pod.
    if (isErrno(error, 'ENOENT')) return []
    throw error
  }
}

function inodeOf(path: string): bigint | undefined {
  try {
    return statSync(path, { bigint: true }).ino
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined
    throw error
  }
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
