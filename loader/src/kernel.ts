/** The kernel as one value, for code that is to be tried without it. */
import { createMap, openPinnedMap, possibleCpus } from './kernel-map.ts'
import { loadObject } from './kernel-object.ts'
import { openPinnedProgram } from './kernel-program.ts'
import type { BpfMap, MapDefinition } from './map.ts'
import type { BpfObject, LoadOptions } from './object.ts'
import { kernelPins, type Pins } from './pins.ts'
import type { BpfProgram } from './program.ts'
import type { ObjectSpec } from './spec.ts'

/**
 * What makes maps and programs, and finds those that are pinned. `kernel` is the real one, FakeKernel of
 * `libbpf-ts/fake` one in memory; the methods are the functions of this package of the same names.
 */
export interface Kernel {
  loadObject(spec: ObjectSpec, options?: LoadOptions): BpfObject
  createMap(definition: MapDefinition): BpfMap
  openPinnedMap(path: string, options?: { readonly readOnly?: boolean }): BpfMap
  openPinnedProgram(path: string): BpfProgram
  possibleCpus(): number
  readonly pins: Pins
}

/** The kernel that runs this process. */
export const kernel: Kernel = {
  loadObject,
  createMap,
  openPinnedMap,
  openPinnedProgram,
  possibleCpus,
  pins: kernelPins,
}
