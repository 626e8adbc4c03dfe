/** The machine that is measured on, and the part of it that a measurement asks for. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import os from 'node:os'
import type { Machine } from './result.ts'

export function thisMachine(): Machine {
  return {
    kernel: os.release(),
    cpu: os.cpus()[0]?.model.trim() ?? os.arch(),
    cores: os.cpus().length,
    memoryGB: Math.round(os.totalmem() / 2 ** 30),
    node: process.version,
  }
}

/** Keeps the main thread on the last CPU until the end of the scope; interrupts are mostly on the first. */
export function stayOnOneCpu(): Disposable {
  const before = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  const last = before?.split(/[-,]/).at(-1)
  if (before === undefined || last === undefined) return { [Symbol.dispose]: () => undefined }
  setCpus(last)
  return { [Symbol.dispose]: () => setCpus(before) }
}

function setCpus(list: string): void {
  execFileSync('taskset', ['-cp', list, String(process.pid)], { stdio: ['ignore', 'ignore', 'inherit'] })
}
