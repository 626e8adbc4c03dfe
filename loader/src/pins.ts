/** What is pinned, by paths; and what is said when that fails. */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { BpfError } from './errors.ts'

const EPERM = 1
const ENOENT = 2
const EEXIST = 17
const EINVAL = 22

/** What can be pinned. */
export type PinKind = 'map' | 'program' | 'link'

/** The pins and folders of a BPF file system, or of a fake one. Throws what Node.js throws where it may not look. */
export interface Pins {
  /** Whether a pin, or a folder, is at the path. */
  exists(path: string): boolean
  /** The names in a folder, sorted; none when there is no such folder. */
  list(folder: string): string[]
  /** Removes a pin, or a folder with all that is in it; false when there was none. */
  remove(path: string): boolean
  /**
   * Moves a pin to another path of the same file system, in place of what may be pinned there: whoever opens that path finds
   * one or the other. Throws BpfError with `errnoName` ENOENT when nothing is pinned there.
   */
  move(from: string, to: string): void
}

/** The pins of the BPF file systems that are mounted. */
export const kernelPins: Pins = {
  exists: (path) => existsSync(path),
  list: (folder) => (existsSync(folder) ? readdirSync(folder).sort() : []),
  remove: (path) => {
    if (!existsSync(path)) return false
    rmSync(path, { recursive: true })
    return true
  },
  move: (from, to) => {
    if (!existsSync(from)) throw missingPin(from)
    renameSync(from, to)
  },
}

/** Why something could not be pinned at a path. */
export function pinError(subject: string, errno: number, target: string): BpfError {
  return new BpfError('pin', subject, errno, pinHint(Math.abs(errno), target))
}

function pinHint(errno: number, target: string): string | undefined {
  if (errno === EEXIST) return `something is pinned at ${target} already`
  if (errno !== EPERM && errno !== EINVAL) return undefined
  if (path.basename(target).includes('.')) return 'names on a BPF file system contain no dots'
  return `is ${path.dirname(target)} on a BPF file system (mount -t bpf)?`
}

/** Nothing is pinned at a path. */
export function missingPin(source: string): BpfError {
  return new BpfError('open', `pin ${source}`, ENOENT, 'nothing is pinned there')
}

/** What is pinned at a path is of another kind. */
export function pinOfOtherKind(source: string, found: string, wanted: PinKind): BpfError {
  return new BpfError('open', `pin ${source}`, EINVAL, `it is a ${found}, not a ${wanted}`)
}
