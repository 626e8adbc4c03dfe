/** Sysctls of the network, by their names with dots. */

import { readFileSync, writeFileSync } from 'node:fs'

export interface Sysctls {
  /** Without the line's end; undefined where the kernel has no such sysctl, or none that may be read. */
  read(name: string): string | undefined
  /** Throws what the file system says. */
  write(name: string, value: string): void
}

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

function pathOf(name: string): string {
  return `/proc/sys/${name.replaceAll('.', '/')}`
}
