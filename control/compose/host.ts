/** What must be so on the node before the daemon can work: privileges, kernel, the two mounts. */

import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  cgroupFolder,
  cgroupMount,
  isOn,
  kernelText,
  missing,
  probeKernel,
  probePrivileges,
} from '../cli/requirements.ts'
import type { RunOptions } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import type { Mode } from '../dataplane/choose.ts'
import { describeFailure, type RunCommand, runCommand } from '../dataplane/netfilter/command.ts'
import type { Logger } from '../log.ts'
import type { Family } from '../model/types.ts'
import { UnfitError } from './dataplane-part.ts'

const BPF_MOUNT = '/sys/fs/bpf'
/** Of our own, where the node has none. */
const CGROUP_MOUNT = '/run/sluice/cgroup2'

/**
 * Throws a `Refusal` that names every capability this process lacks. A lack of one is nothing to be got round with another
 * dataplane: whoever starts the process can mend it.
 */
export function checkPrivileges(mode: Mode = 'auto'): void {
  const needed = probePrivileges().filter(({ name }) => mode !== 'iptables' || name === 'CAP_NET_ADMIN')
  const lacking = missing(needed)
  if (lacking.length === 0) return
  const names = lacking.map((text) => text.split(' ')[0]).join(', ')
  throw new Refusal(`this needs ${names}: run it as root, or give the process these capabilities`)
}

/** Throws an `UnfitError` with everything that the kernel lacks for eBPF. */
export function checkKernel(): void {
  const lacking = missing(probeKernel())
  if (lacking.length > 0) throw new UnfitError(lacking.map((what) => `kernel ${kernelText()} has no ${what}`))
}

/** Whether the kernel has a family at all: `ipv6.disable=1` on its command line takes IPv6 away, and its netfilter tables. */
export function kernelHas(family: Family): boolean {
  return family === 'ipv4' || existsSync('/proc/net/if_inet6')
}

/** Whether the cgroup mount of our own is there. */
export function hasOwnMount(): boolean {
  return existsSync(CGROUP_MOUNT)
}

/** Mounts what is missing. Returns the cgroup whose processes are to be served at their sockets. */
export async function prepareMounts(
  { bpfRoot, cgroupRoot }: Pick<RunOptions, 'bpfRoot' | 'cgroupRoot'>,
  log: Pick<Logger, 'info'>,
  run: RunCommand = runCommand,
): Promise<string> {
  if (!isOn('bpf', bpfRoot)) {
    if (!bpfRoot.startsWith(`${BPF_MOUNT}/`)) {
      throw new Refusal(
        `--bpf-root ${bpfRoot} is not in a BPF file system: give a folder below ${BPF_MOUNT}, or mount one there ` +
          `(mount -t bpf bpf ${bpfRoot})`,
      )
    }
    await mount('bpf', BPF_MOUNT, run)
    log.info(`mounted a BPF file system at ${BPF_MOUNT}`)
  }
  if (cgroupRoot !== undefined) {
    const folder = cgroupFolder(cgroupRoot)
    if (folder !== undefined) return folder
    throw new Refusal(
      `--cgroup-root ${cgroupRoot} is no folder of a cgroup v2 mount: findmnt -t cgroup2 shows them`,
    )
  }
  const found = cgroupMount()
  if (found !== undefined) return found
  mkdirSync(CGROUP_MOUNT, { recursive: true })
  await mount('cgroup2', CGROUP_MOUNT, run)
  log.info(`mounted the cgroup v2 hierarchy at ${CGROUP_MOUNT}`)
  return CGROUP_MOUNT
}

async function mount(type: string, path: string, run: RunCommand): Promise<void> {
  const argv = ['mount', '-t', type, type, path]
  const result = await run(argv)
  if (result.code === 0) return
  throw new UnfitError([
    `no ${type} file system is mounted, and mounting one failed: ${describeFailure(argv, result)}`,
  ])
}

/** Takes away the cgroup mount that `prepareMounts` made, if it did, and names it. */
export async function removeMounts(run: RunCommand = runCommand): Promise<string[]> {
  if (!existsSync(CGROUP_MOUNT)) return []
  if (isOn('cgroup2', CGROUP_MOUNT)) {
    const argv = ['umount', CGROUP_MOUNT]
    const result = await run(argv)
    if (result.code !== 0) throw new Error(describeFailure(argv, result))
  }
  rmdirSync(CGROUP_MOUNT)
  const parent = dirname(CGROUP_MOUNT)
  if (readdirSync(parent).length === 0) rmdirSync(parent)
  return [`cgroup v2 mount ${CGROUP_MOUNT}`]
}
