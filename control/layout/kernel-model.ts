/** A model of the maps in memory, for tests: what the kernel would hold, and a say in which writes it refuses. */
import { isShared, type TargetName, targetSizes } from './batches.ts'
import { keyText, viewOf } from './bytes.ts'
import type { FamilyLayout } from './family.ts'
import type { Mirror } from './mirror.ts'

/** Sees an entry by its key text. */
export type OnWrite = (target: TargetName, operation: 'put' | 'delete', key: string) => void

interface ModelTarget {
  updateMany(keys: Uint8Array, values: Uint8Array, count: number): void
  deleteMany(keys: Uint8Array, count: number): number
}

export class KernelModel {
  readonly layout: FamilyLayout
  /** Values by key text, of every target. */
  readonly maps: Readonly<Record<TargetName, Map<string, Uint8Array>>>
  readonly targets: Readonly<Record<TargetName, ModelTarget>>
  /** Throws to refuse an entry. */
  refuse: OnWrite = () => {}
  before: OnWrite = () => {}
  after: OnWrite = () => {}

  /** @param other the maps of the other family, some of which are the same */
  constructor(layout: FamilyLayout, other?: KernelModel) {
    this.layout = layout
    const names = Object.keys(targetSizes(layout)) as TargetName[]
    this.maps = Object.fromEntries(
      names.map((name) => [name, (isShared(name) ? other?.maps[name] : undefined) ?? new Map()]),
    ) as typeof this.maps
    this.targets = Object.fromEntries(
      names.map((name) => [
        name,
        {
          updateMany: (keys: Uint8Array, values: Uint8Array, count: number) =>
            this.#update(name, keys, values, count),
          deleteMany: (keys: Uint8Array, count: number) => this.#delete(name, keys, count),
        },
      ]),
    ) as typeof this.targets
  }

  /** The value at an index of an array; undefined where nothing was written. */
  at(target: TargetName, index: number): DataView | undefined {
    const key = new Uint8Array(4)
    viewOf(key).setUint32(0, index, true)
    const value = this.maps[target].get(keyText(key))
    return value === undefined ? undefined : viewOf(value)
  }

  /** Reads all maps into a mirror, as a start does. */
  loadInto(mirror: Mirror): void {
    for (const [name, map] of Object.entries(this.maps) as [TargetName, Map<string, Uint8Array>][]) {
      for (const [key, value] of map) mirror.load(name, Buffer.from(key, 'latin1'), value, 1)
    }
  }

  #update(target: TargetName, keys: Uint8Array, values: Uint8Array, count: number): void {
    const { key: keySize, value: valueSize } = targetSizes(this.layout)[target]
    for (let i = 0; i < count; i++) {
      const key = keyText(keys, i * keySize, keySize)
      this.refuse(target, 'put', key)
      this.before(target, 'put', key)
      this.maps[target].set(key, values.slice(i * valueSize, (i + 1) * valueSize))
      this.after(target, 'put', key)
    }
  }

  #delete(target: TargetName, keys: Uint8Array, count: number): number {
    const { key: keySize } = targetSizes(this.layout)[target]
    let deleted = 0
    for (let i = 0; i < count; i++) {
      const key = keyText(keys, i * keySize, keySize)
      this.refuse(target, 'delete', key)
      this.before(target, 'delete', key)
      if (this.maps[target].delete(key)) deleted++
      this.after(target, 'delete', key)
    }
    return deleted
  }
}
