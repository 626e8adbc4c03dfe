/** The options that say what a device is, over what it looks like. Pure: a text that does not fit throws a `Refusal`. */

import { Refusal } from './refusal.ts'

/** Globs over device names (`*`, `?`), by what they say of a device. */
export interface DevicePatterns {
  readonly externalInterfaces: readonly string[]
  readonly podInterfaces: readonly string[]
  readonly ignoreInterfaces: readonly string[]
}

interface DeviceOption {
  readonly flags: string
  readonly description: string
}

export const DEVICE_OPTIONS: readonly DeviceOption[] = [
  {
    flags: '--external-interfaces <GLOBS>',
    description: 'devices that clients outside are behind, whatever they look like: eth*,bond0',
  },
  {
    flags: '--pod-interfaces <GLOBS>',
    description: 'devices that pods of this node are behind, whatever they look like: veth*,tap?',
  },
  {
    flags: '--ignore-interfaces <GLOBS>',
    description: 'devices that get no program, whatever they look like; before the other two',
  },
]

/** Globs with commas between them, added to those given so far. A name has at most 15 bytes, and no slash or space. */
export function parseGlobs(text: string, before: readonly string[] = []): readonly string[] {
  const globs = text.split(',').map((glob) => glob.trim())
  if (globs.some((glob) => !/^[^\s/[\]{}\\]{1,15}$/.test(glob))) {
    throw new Refusal(
      'It takes names of network devices with commas between them, * for any text and ? for one character.',
    )
  }
  return [...before, ...globs]
}

/** Of all options, as commander hands them over. */
export function devicePatterns({
  externalInterfaces,
  podInterfaces,
  ignoreInterfaces,
}: DevicePatterns): DevicePatterns {
  return { externalInterfaces, podInterfaces, ignoreInterfaces }
}
