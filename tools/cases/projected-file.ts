import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A file that is replaced as the kubelet does it: a link to a folder is renamed over the one before. */
export class ProjectedFile {
  readonly #folder: string
  #count = 0

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder)
    symlinkSync('..data/token', this.path)
  }

  get path(): string {
    return join(this.#folder, 'token')
  }

  write(text: string | undefined): void {
    this.#count += 1
    const version = join(this.#folder, `..version-${this.#count}`)
    mkdirSync(version)
    if (text !== undefined) writeFileSync(join(version, 'token'), text)
    symlinkSync(version, join(this.#folder, '..next'))
    renameSync(join(this.#folder, '..next'), join(this.#folder, '..data'))
    rmSync(join(this.#folder, `..version-${this.#count - 1}`), { recursive: true, force: true })
  }
}
