/** Where the kernel's file systems are mounted on this machine. */

import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'

/**
 * The mount points of a type of file system, in the order they were mounted, from the text of
 * `/proc/self/mountinfo` (proc(5): mount point is the fifth field, the type the first after the lone
 * hyphen; a blank is written `\040`).
 */
export function mountPoints(mountinfo: string, type: string): string[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const point = before.split(' ')[4]
    return after.split(' ')[0] === type && point !== undefined ? [point.replaceAll('\\040', ' ')] : []
  })
}

/** Where a type of file system is mounted now, if it is. */
export function findMount(type: 'cgroup2' | 'bpf'): string | undefined {
  return mountPoints(readFileSync('/proc/self/mountinfo', 'utf8'), type)[0]
}

/**
 * Where cgroup v2 is mounted: `/sys/fs/cgroup`, or on a hybrid hierarchy a folder below it. Where only
 * version 1 is, it is mounted under `/run/sluice`, as the daemon does.
 */
export function cgroup2Mount(): string {
  return findMount('cgroup2') ?? mount('cgroup2', '/run/sluice/cgroup2')
}

/** Where the BPF file system is mounted, mounting it at its usual place when it is not. */
export function bpffsMount(): string {
  return findMount('bpf') ?? mount('bpf', '/sys/fs/bpf')
}

function mount(type: string, folder: string): string {
  mkdirSync(folder, { recursive: true })
  execFileSync('mount', ['-t', type, type, folder])
  return folder
}
