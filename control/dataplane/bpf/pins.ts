/** Where the maps are pinned, so that they outlive the process. */
import path from 'node:path'
import { kernel, type Pins } from 'libbpf-ts'
import { layout } from '../../layout/generated.ts'

/** The folder of the maps of this version of the layout. */
export function mapFolder(bpfRoot: string): string {
  return path.join(bpfRoot, `v${layout.VERSION}`)
}

/**
 * The name of a map's pin; undefined for one that lives as long as the process: scratch space, constants, and globals
 * without a section of their own.
 */
export function pinName(map: string): string | undefined {
  const section = /^\.data\.(\w+)$/.exec(map)
  if (section !== null) return section[1]
  return map.startsWith('.') || map.startsWith('scratch') ? undefined : map
}

/** The path of a pin: `name` as `pinName` has it. */
export function pinPath(bpfRoot: string, name: string): string {
  return path.join(mapFolder(bpfRoot), name)
}

/** The folder of the larger maps that are to take the place of others: nobody needs what is left there. */
export function growingFolder(bpfRoot: string): string {
  return path.join(bpfRoot, 'growing')
}

/** Removes the pins of the maps of every version; returns their paths. What is still attached keeps its maps. */
export function removeMapPins(bpfRoot: string, pins: Pins = kernel.pins): string[] {
  const removed: string[] = []
  pins.remove(growingFolder(bpfRoot))
  for (const version of pins.list(bpfRoot).filter((name) => /^v\d+$/.test(name))) {
    const folder = path.join(bpfRoot, version)
    removed.push(...pins.list(folder).map((name) => path.join(folder, name)))
    pins.remove(folder)
  }
  return removed
}
