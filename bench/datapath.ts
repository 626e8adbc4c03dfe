/** The real datapath in the kernel, filled by the real dataplane, without any device that traffic comes through. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import {
  type BpfObject,
  type BpfProgram,
  loadObject,
  netnsCookie,
  probeKernelConstant,
  readSpec,
} from 'libbpf-ts'
import { BpfDataplane } from '../control/dataplane/bpf/dataplane.ts'
import { pinPath } from '../control/dataplane/bpf/pins.ts'
import { viewOf } from '../control/layout/bytes.ts'
import * as generated from '../control/layout/generated.ts'
import { desiredState } from '../control/model/desired.ts'
import { bpffsMount } from '../tools/cluster/mounts.ts'
import { OBJECT_FOLDER } from '../tools/packets/datapath.ts'
import type { FamilyNumber } from '../tools/packets/family.ts'
import { NODE, syntheticCluster } from './synthetic.ts'

const ROOT = path.resolve(import.meta.dirname, '..')
const BUILD = path.join(ROOT, 'build')

/** Test runs without a device of their own happen on the loopback device of the process' network namespace. */
const LOOPBACK = 1

/** Compiles `bench.bpf.c`; returns the path of the object. */
export function compileBench(): string {
  const target = path.join(BUILD, 'bench.bpf.o')
  const include = `/usr/include/${os.machine()}-linux-gnu`
  const flags = ['-O2', '-g', '-Wall', '-Wextra', '-Werror', '-target', 'bpf', '-mcpu=v3', '-I', include]
  mkdirSync(BUILD, { recursive: true })
  execFileSync('clang', [...flags, '-c', path.join(import.meta.dirname, 'bench.bpf.c'), '-o', target], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  return target
}

/** A place for pins that nobody else has. */
export function pinRoot(name: string): string {
  return path.join(bpffsMount(), `slb${process.pid}-${name}`)
}

/** Has pins go with the process, also when a signal ends it. */
export function removePinsAtExit(): void {
  process.on('exit', () => {
    const mount = bpffsMount()
    for (const name of readdirSync(mount).filter((each) => each.startsWith(`slb${process.pid}-`)))
      rmSync(path.join(mount, name), { recursive: true, force: true })
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(128 + os.constants.signals[signal]))
  }
}

/** A datapath that balances the services of a synthetic cluster, of one family. */
export class BenchDatapath implements AsyncDisposable {
  readonly services: number
  readonly family: FamilyNumber
  readonly dataplane: BpfDataplane
  readonly #root: string

  constructor(services: number, family: FamilyNumber = 4) {
    this.services = services
    this.family = family
    this.#root = pinRoot(`${services}-${family}`)
    const have = probeKernelConstant('BPF_F_IPV6').supported === 'yes'
    const constants = { host_netns_cookie: netnsCookie() ?? 0n, have_csum_ipv6: have }
    this.dataplane = new BpfDataplane({ objectFolder: OBJECT_FOLDER, bpfRoot: this.#root, constants })
  }

  /** Fills the maps, and makes the loopback device one of pods: its packets are translated. */
  async start(endpoints: number): Promise<void> {
    await this.dataplane.start()
    const { desired } = desiredState(syntheticCluster(this.services, endpoints, this.family), NODE)
    const { failed } = await this.dataplane.sync(desired, undefined)
    if (failed.length > 0) throw new Error(`the kernel refused ${failed.length} entries: ${failed[0]}`)
    const device = {
      ifindex: LOOPBACK,
      bridge: 0,
      mac: new Uint8Array(6),
      class: generated.deviceClass.POD,
      flags: 0,
    }
    const bytes = new Uint8Array(generated.device.size)
    generated.device.encode(device, viewOf(bytes), 0)
    this.dataplane.map('devices').update(word(LOOPBACK), bytes)
  }

  /** Connections balanced so far, over all services. */
  connections(): bigint {
    let sum = 0n
    const { size, decode } = generated.serviceStats
    for (const { value } of this.dataplane.map('service_stats').entries()) {
      for (let at = 0; at < value.length; at += size) sum += decode(viewOf(value), at).connections
    }
    return sum
  }

  /** Where a map is pinned. */
  pinOf(map: string): string {
    return pinPath(this.#root, map)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.dataplane.stop('remove')
    } finally {
      rmSync(this.#root, { recursive: true, force: true })
    }
  }
}

/** What packets go on to after the measuring program; see bench.bpf.c. */
export type UnderTest = BpfProgram | 'empty' | 'look_up4' | 'look_up6'

/** The measuring programs, in front of a program to be measured; they know the flows of the datapath. */
export function loadMeasuring(objectPath: string, datapath: BenchDatapath, underTest: UnderTest): BpfObject {
  const programs = ['again', 'another', 'empty', 'look_up4', 'look_up6']
  const pinnedMaps = { flows4: datapath.pinOf('flows4'), flows6: datapath.pinOf('flows6') }
  const measuring = loadObject(readSpec(objectPath), { programs, pinnedMaps })
  const program = typeof underTest === 'string' ? measuring.program(underTest) : underTest
  measuring.map('under_test').update(word(0), word(program.fd))
  return measuring
}

export function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  viewOf(bytes).setUint32(0, value, true)
  return bytes
}
