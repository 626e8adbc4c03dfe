/** What Sluice needs of a kernel, of its own process and of the node, and what of it is here. */

import { existsSync, statfsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { effectiveCapabilities, kernelRelease, mountsOfType, type ProbeAnswer } from 'libbpf-ts'
import { FEATURES, type Feature } from './features.ts'

/** One thing that is needed or useful, and whether it is here. */
export interface Finding {
  /** As a person would look for it. */
  readonly name: string
  readonly here: 'yes' | 'no' | 'unknown'
  /** Without it the daemon does not start. */
  readonly needed: boolean
  readonly use: string
  /** Why it is not here, what is done without it, or where it is. May be empty. */
  readonly detail: string
}

/**
 * The capabilities that the daemon works with on kernels from 5.8 on; SYS_ADMIN stands for BPF and PERFMON. Nothing
 * else is used: no object is opened by its id, which would want SYS_ADMIN.
 */
export const CAPABILITIES = ['BPF', 'NET_ADMIN', 'PERFMON'] as const

/** What the kernel has. Where bpf(2) cannot be used there is nothing else to find out. */
export function probeKernel(features: readonly Feature[] = FEATURES): Finding[] {
  const [first] = features
  const bpf = first?.probe()
  if (first !== undefined && bpf !== undefined && bpf.supported !== 'yes') {
    return [{ ...findingOf(first.name, first.use, first.otherwise, bpf), here: 'no' }]
  }
  const answers = features.map((feature) => ({
    feature,
    answer: feature === first && bpf ? bpf : feature.probe(),
  }))
  const spared = new Map(
    answers.flatMap(({ feature: { name, spares }, answer }) =>
      spares !== undefined && answer.supported === 'yes' ? [[spares, name] as const] : [],
    ),
  )
  return answers.map(({ feature: { name, use, otherwise }, answer }) => {
    const by = spared.get(name)
    return findingOf(name, use, by === undefined ? otherwise : `${by} are used`, answer)
  })
}

/** An answer as a line of the report. Pure. */
export function findingOf(
  name: string,
  use: string,
  otherwise: string | undefined,
  answer: ProbeAnswer,
): Finding {
  const needed = otherwise === undefined
  if (answer.supported === 'yes') return { name, here: 'yes', needed, use, detail: '' }
  const since =
    answer.supported === 'no' && answer.since !== undefined ? `, kernel ${answer.since} has it` : ''
  const instead = otherwise === undefined ? '' : `; ${otherwise}`
  return { name, here: answer.supported, needed, use, detail: `${answer.reason}${since}${instead}` }
}

/** What this process may do. */
export function probePrivileges(held: readonly string[] = effectiveCapabilities()): Finding[] {
  return CAPABILITIES.map((name) => {
    const isThere = held.includes(name) || (name !== 'NET_ADMIN' && held.includes('SYS_ADMIN'))
    return {
      name: `CAP_${name}`,
      here: isThere ? 'yes' : 'no',
      needed: true,
      use: CAPABILITY_USES[name],
      detail: isThere ? '' : 'run as root, or give the process this capability',
    }
  })
}

const CAPABILITY_USES: Readonly<Record<(typeof CAPABILITIES)[number], string>> = {
  BPF: 'load programs, make maps',
  NET_ADMIN: 'attach programs, netfilter rules',
  PERFMON: 'programs that compare pointers',
}

/** statfs(2)'s types of file systems, from <linux/magic.h>. */
const FILE_SYSTEMS = { bpf: 0xcafe4a11, cgroup2: 0x63677270 } as const

/** Whether a path, or the nearest folder above it that exists, is in a file system of this type. */
export function isOn(type: keyof typeof FILE_SYSTEMS, path: string): boolean {
  if (!existsSync(path)) return path !== '/' && isOn(type, dirname(path))
  return statfsSync(path).type === FILE_SYSTEMS[type]
}

/** The root of the first cgroup v2 mount that shows all of the hierarchy; undefined when there is none. */
export function cgroupMount(): string | undefined {
  return mountsOfType('cgroup2').find(({ root }) => root === '/')?.path
}

/**
 * What a `--cgroup-root` comes to: that folder, or where both versions are mounted what systemd calls `unified` below it.
 * Undefined when neither is of cgroup v2.
 */
export function cgroupFolder(root: string): string | undefined {
  return [root, join(root, 'unified')].find((path) => existsSync(path) && isOn('cgroup2', path))
}

/** The mounts that the daemon works in. It mounts what is missing, so that neither is a reason to refuse. */
export function probeMounts(bpfRoot: string, cgroupRoot: string | undefined): Finding[] {
  const cgroup = cgroupRoot === undefined ? cgroupMount() : (cgroupFolder(cgroupRoot) ?? cgroupRoot)
  const finding = (name: string, isHere: boolean, use: string, detail: string): Finding => {
    return { name, here: isHere ? 'yes' : 'no', needed: false, use, detail }
  }
  const onBpf = isOn('bpf', bpfRoot)
  const onCgroup = cgroup !== undefined && isOn('cgroup2', cgroup)
  return [
    finding(
      'BPF file system',
      onBpf,
      'pins: what outlives the daemon',
      onBpf ? `has ${bpfRoot}` : `none has ${bpfRoot}; the daemon mounts one`,
    ),
    finding(
      'cgroup v2',
      onCgroup,
      'sockets of the node',
      onCgroup ? `at ${cgroup}` : 'none is mounted; the daemon mounts one',
    ),
  ]
}

/** `6.1.0-25-amd64` */
export const kernelText = (): string => kernelRelease().release

/** The needed things that are not here for sure, one phrase each. Pure. */
export function missing(findings: readonly Finding[]): string[] {
  return findings
    .filter(({ needed, here }) => needed && here === 'no')
    .map(({ name, detail }) => `${name} (${detail})`)
}
