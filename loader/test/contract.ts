/** What a kernel must do with maps, whether it is the real one or a fake: one suite for both. */
import assert from 'node:assert/strict'
import { BpfError, type BpfMap, type Kernel, type MapDefinition, typedMap, u32 } from '../src/index.ts'
import { arrays } from './contract-arrays.ts'
import { edges } from './contract-edges.ts'
import { hashes } from './contract-hashes.ts'
import { objects } from './contract-objects.ts'
import { pins } from './contract-pins.ts'
import { rings } from './contract-rings.ts'

/** Where the suite runs. */
export interface World {
  readonly kernel: Kernel
  /** Options of its suites. */
  readonly options: { readonly skip: boolean | string }
  /** A folder on its BPF file system, removed with its pins at the end of the scope. */
  pinFolder(name: string): Disposable & { readonly path: string }
  /** Makes the suite around it fail when it leaves descriptors open. */
  checkDescriptors(): void
}

/** Declares the whole suite. */
export function contract(world: World): void {
  hashes(world)
  arrays(world)
  edges(world)
  pins(world)
  objects(world)
  rings(world)
}

/** Words of the host as bytes. */
export function words(...values: number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(values).buffer)
}

/** A map that a test can afford: a hash of words unless it says otherwise. */
export function makeMap({ kernel }: World, overrides: Partial<MapDefinition> = {}): BpfMap {
  const usual: MapDefinition = { name: 'test', type: 'hash', keySize: 4, valueSize: 4, maxEntries: 1000 }
  return kernel.createMap({ ...usual, ...overrides })
}

/** Keys as numbers with their values, sorted: maps have no order. */
export function contents(map: BpfMap): [number, number][] {
  return [...typedMap(map, u32, u32).entries()].toSorted(([a], [b]) => a - b)
}

/** For `assert.throws`: a BpfError of this errno. */
export function byErrno(name: string) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof BpfError, String(error))
    assert.equal(error.errnoName, name, error.message)
    return true
  }
}
