/** A BPF file system in memory. */
import { posix } from 'node:path'
import { BpfError } from './errors.ts'
import type { FakeMap } from './fake-map.ts'
import type { FakeProgram } from './fake-program.ts'
import { missingPin, type Pins, pinError, pinOfOtherKind } from './pins.ts'

const EPERM = 1
const EACCES = 13
const EEXIST = 17

type Pinned = FakeMap | FakeProgram

/** Folders are there as long as something is in them. */
export class FakePins implements Pins {
  readonly #root: string
  readonly #pinned = new Map<string, Pinned>()

  /** @param root Where it is mounted; everything else is another file system. */
  constructor(root: string) {
    this.#root = posix.resolve(root)
  }

  exists(path: string): boolean {
    return this.#pinned.has(posix.resolve(path)) || this.#isFolder(path)
  }

  list(folder: string): string[] {
    const names = this.#below(folder).map((path) => posix.relative(posix.resolve(folder), path))
    return [...new Set(names.map((name) => name.split('/', 1)[0] ?? name))].sort()
  }

  remove(path: string): boolean {
    const inside = this.#below(path)
    for (const each of inside) this.#pinned.delete(each)
    return this.unpin(path) || inside.length > 0
  }

  move(from: string, to: string): void {
    const thing = this.#find(from)
    if (thing === undefined) throw missingPin(from)
    this.#pinned.delete(posix.resolve(from))
    this.#pinned.set(posix.resolve(to), thing)
  }

  /** Throws BpfError when something is there, or nothing can be. */
  pin(path: string, thing: Pinned, subject: string): void {
    const target = posix.resolve(path)
    const inside = posix.relative(this.#root, target)
    if (inside === '' || inside.includes('.')) throw pinError(subject, EPERM, path)
    if (this.exists(target) || this.#ancestors(target).some((folder) => this.#pinned.has(folder))) {
      throw pinError(subject, EEXIST, path)
    }
    this.#pinned.set(target, thing)
  }

  /** False when it was not there. */
  unpin(path: string): boolean {
    return this.#pinned.delete(posix.resolve(path))
  }

  /** The map that is pinned at a path; undefined when nothing is. Throws BpfError for something else. */
  findMap(path: string): FakeMap | undefined {
    const found = this.#find(path)
    if (found === undefined || found.kind === 'map') return found
    throw pinOfOtherKind(path, found.kind, 'map')
  }

  /** As `findMap`, but throws BpfError when nothing is there. */
  map(path: string): FakeMap {
    const found = this.findMap(path)
    if (found === undefined) throw missingPin(path)
    return found
  }

  /** The program that is pinned at a path. Throws BpfError when there is none. */
  program(path: string): FakeProgram {
    const found = this.#find(path)
    if (found === undefined) throw missingPin(path)
    if (found.kind === 'program') return found
    throw pinOfOtherKind(path, found.kind, 'program')
  }

  #find(path: string): Pinned | undefined {
    if (this.#isFolder(path)) throw new BpfError('open', `pin ${path}`, EACCES)
    return this.#pinned.get(posix.resolve(path))
  }

  #isFolder(path: string): boolean {
    return posix.resolve(path) === this.#root || this.#below(path).length > 0
  }

  #below(folder: string): string[] {
    const prefix = `${posix.resolve(folder)}/`
    return [...this.#pinned.keys()].filter((path) => path.startsWith(prefix))
  }

  #ancestors(path: string): string[] {
    const parts = path.split('/')
    return parts.slice(1, -1).map((_, i) => parts.slice(0, i + 2).join('/'))
  }
}
