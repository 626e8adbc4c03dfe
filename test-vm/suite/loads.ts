/** Whether the verifier of this kernel takes every program, with every switch that the kernel's features turn. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import {
  type ConstantValue,
  kernel,
  type ObjectSpec,
  probeHelper,
  probeKernelConstant,
  probeKernelFunction,
  readSpec,
  VerifierError,
} from 'libbpf-ts'
import type { Outcome } from '../results.ts'
import { CLONE } from './run.ts'

const OBJECTS = join(CLONE, 'build')
/** Built beside the daemon's, which are all the others: one that is new is loaded without a word here. */
const NOT_OURS = 'bench.bpf.o'

/** Enough for the verifier. */
const MAP_ENTRIES = 16
const LOG_LINES = 15

/** Global switches of the programs, and whether this kernel can have them on. */
function switches(): Readonly<Record<string, boolean>> {
  return {
    have_set_retval: probeHelper('cgroup_sock_addr', 'set_retval').supported === 'yes',
    have_ct_lookup: probeKernelFunction('bpf_skb_ct_lookup', 'nf_conntrack').supported === 'yes',
    have_csum_ipv6: probeKernelConstant('BPF_F_IPV6').supported === 'yes',
    serve_all_netns: true,
  }
}

/** Every object, with all switches that this kernel can have on, and with all of them off. */
export function loadAll(): Outcome[] {
  const usable = switches()
  const on = Object.keys(usable).filter((name) => usable[name])
  const names = readdirSync(OBJECTS).filter((name) => name.endsWith('.bpf.o') && name !== NOT_OURS)
  if (names.length === 0) throw new Error(`${OBJECTS} holds no objects: the set-up builds them`)
  return names.sort().flatMap((name) => {
    const spec = readSpec(join(OBJECTS, name))
    const own = Object.keys(usable).filter((each) => spec.globals.has(each))
    const variants = new Map([[`${name}, as it is`, {}]])
    if (own.length > 0) {
      const value = (isOn: (each: string) => boolean) =>
        Object.fromEntries(own.map((each) => [each, isOn(each) ? 1 : 0]))
      variants.set(
        `${name}, ${on.join(', ')}`,
        value((each) => on.includes(each)),
      )
      variants.set(
        `${name}, every switch off`,
        value(() => false),
      )
    }
    return [...variants].map(([title, constants]) => load(title, spec, constants))
  })
}

function load(title: string, spec: ObjectSpec, constants: Readonly<Record<string, ConstantValue>>): Outcome {
  for (const map of spec.maps.values()) {
    if (!map.name.startsWith('.') && map.type !== 'prog_array') map.maxEntries = MAP_ENTRIES
  }
  const start = performance.now()
  try {
    const object = kernel.loadObject(spec, { constants })
    const count = object.programs.size
    object.close()
    const detail = `${count} programs in ${((performance.now() - start) / 1000).toFixed(1)} s`
    return { check: 'loads', name: title, result: 'passed', detail }
  } catch (error) {
    const log =
      error instanceof VerifierError
        ? `\n${error.log.trimEnd().split('\n').slice(-LOG_LINES).join('\n')}`
        : ''
    return { check: 'loads', name: title, result: 'failed', detail: `${String(error)}${log}` }
  }
}
