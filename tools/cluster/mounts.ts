/** Where the kernel's file systems are mounted on this machine. */

import { readFileSync } from 'node:fs'

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

/** Where cgroup v2 is mounted: `/sys/fs/cgroup`, or on a hybrid hierarchy a folder below it; nothing when it is not. */
export function cgroup2Mount(): string | undefined {
  return mountPoints(readFileSync('/proc/self/mountinfo', 'utf8'), 'cgroup2')[0]
}
