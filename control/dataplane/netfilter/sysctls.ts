/** Sysctls of the network, by their names with dots. */

import { readFileSync, writeFileSync } from 'node:fs'

export interface Sysctls {
  /** Without the line's end; undefined where the kernel has no such sysctl, or none that may be read. */
  read(name: string): string | undefined
  /** Throws what the file system says. */
  write(name: string, value: string): void
}

/** Where they are instead of below /proc/sys: a container has that read-only, and can have the node's mounted elsewhere. */
const ROOT_VARIABLE = 'SLUICE_SYSCTL_ROOT'

/** Those of this process's network namespace. */
export const systemSysctls: Sysctls = {
  read: (name) => {
    try {
      return readFileSync(pathOf(name), 'utf8').trim()
    } catch {
      return undefined
    }
  },
  write: (name, value) => writeFileSync(pathOf(name), value),
}

/**
 * As these, but a write that fails throws nothing: `failed` hears of it, once for each name. A container may write none,
 * mostly, and rules are worth having without.
 */
export function leniently(sysctls: Sysctls, failed: (name: string, error: unknown) => void): Sysctls {
  const told = new Set<string>()
  return {
    read: (name) => sysctls.read(name),
    write: (name, value) => {
      try {
        sysctls.write(name, value)
      } catch (error) {
        if (!told.has(name)) failed(name, error)
        told.add(name)
      }
    },
  }
}

function pathOf(name: string): string {
  return `${process.env[ROOT_VARIABLE] ?? '/proc/sys'}/${name.replaceAll('.', '/')}`
}
