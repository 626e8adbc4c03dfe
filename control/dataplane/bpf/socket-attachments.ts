/** The programs on the sockets of the node's cgroup, by pinned links. */

import type { BpfProgram, CgroupHook } from 'libbpf-ts'
import type { Logger } from '../../log.ts'
import type { Family } from '../../model/types.ts'
import type { ProgramName } from './objects.ts'
import {
  type Attached,
  type CgroupLinkPlan,
  cgroupLinkName,
  ensureCgroupLink,
  isCgroupLinkName,
  linksFolder,
  listLinks,
  removeLink,
} from './pinned-links.ts'

/**
 * The programs on sockets, each with its hook, in the order of attaching: a socket is only sent to a backend when what
 * shows it the frontend, and what forgets it, is there; IPv6's come last, so that a refusal of one leaves IPv4 whole. (A
 * mapped address comes to IPv4's sendmsg hook by itself.)
 */
export const SOCKET_PROGRAMS: readonly SocketProgram[] = [
  { name: 'sock_release4', hook: 'sock_release', family: 'ipv4' },
  { name: 'getpeername4', hook: 'getpeername4', family: 'ipv4' },
  { name: 'recvmsg4', hook: 'recvmsg4', family: 'ipv4' },
  { name: 'sendmsg4', hook: 'sendmsg4', family: 'ipv4' },
  { name: 'connect4', hook: 'connect4', family: 'ipv4' },
  { name: 'getpeername_mapped', hook: 'getpeername6', family: 'ipv4' },
  { name: 'recvmsg_mapped', hook: 'recvmsg6', family: 'ipv4' },
  { name: 'connect_mapped', hook: 'connect6', family: 'ipv4' },
  { name: 'sock_release6', hook: 'sock_release', family: 'ipv6' },
  { name: 'getpeername6', hook: 'getpeername6', family: 'ipv6' },
  { name: 'recvmsg6', hook: 'recvmsg6', family: 'ipv6' },
  { name: 'sendmsg6', hook: 'sendmsg6', family: 'ipv6' },
  { name: 'connect6', hook: 'connect6', family: 'ipv6' },
]

/** A program on sockets. */
export interface SocketProgram {
  readonly name: ProgramName
  readonly hook: CgroupHook
  /** Whose addresses it knows. */
  readonly family: Family
}

export interface SocketAttachmentOptions {
  readonly object: { program(name: ProgramName): BpfProgram }
  /** Those whose programs are loaded. */
  readonly families: readonly Family[]
  readonly bpfRoot: string
  /** The folder of a cgroup of version 2; processes below it have their sockets balanced. */
  readonly cgroupRoot: string
  readonly log: Pick<Logger, 'warn'>
}

/** A plan for one of these programs. */
type SocketPlan = CgroupLinkPlan & Pick<SocketProgram, 'name'>

/** The programs on sockets of one node. */
export class SocketAttachments {
  readonly #plans: readonly SocketPlan[]
  readonly #object: SocketAttachmentOptions['object']
  readonly #folder: string
  readonly #log: SocketAttachmentOptions['log']
  #isWanted = false
  #areAttached = false
  #failure: string | undefined

  /** Attaches nothing yet. Throws SpecError when the object lacks a program. */
  constructor({ object, families, bpfRoot, cgroupRoot, log }: SocketAttachmentOptions) {
    this.#object = object
    this.#plans = SOCKET_PROGRAMS.filter(({ family }) => families.includes(family)).map(({ name, hook }) => ({
      name,
      hook,
      cgroup: cgroupRoot,
    }))
    for (const { name } of this.#plans) object.program(name)
    this.#folder = linksFolder(bpfRoot)
    this.#log = log
  }

  /** All of them are attached, as far as anybody has looked. */
  get areAttached(): boolean {
    return this.#areAttached
  }

  /**
   * Has the programs run in the cgroup, through pinned links of an earlier process where they are alive. Links of programs
   * that there are no more are removed. Throws when the kernel refuses or there is no such cgroup; `check` goes on trying.
   */
  attach(): void {
    this.#isWanted = true
    for (const plan of this.#plans) this.#ensure(plan)
    this.#areAttached = true
    const names = new Set(this.#plans.map(({ name }) => cgroupLinkName(name)))
    for (const name of listLinks(this.#folder)) {
      if (isCgroupLinkName(name) && !names.has(name)) removeLink(this.#folder, name)
    }
  }

  /** Attaches again what is gone, and says so; does nothing before `attach`. */
  check(): void {
    if (!this.#isWanted) return
    try {
      for (const plan of this.#plans) {
        const { adopted } = this.#ensure(plan)
        if (!adopted)
          this.#log.warn(`our ${plan.name} program was detached from ${plan.cgroup}: attached again`)
      }
      this.#failure = undefined
      this.#areAttached = true
    } catch (error) {
      this.#areAttached = false
      const message = String(error)
      if (this.#failure !== message) {
        this.#log.warn(
          'cannot attach the socket programs: processes of this node are not served; tried again',
          { err: error },
        )
      }
      this.#failure = message
    }
  }

  #ensure(plan: SocketPlan): Attached {
    return ensureCgroupLink(this.#folder, plan, this.#object.program(plan.name))
  }

  /** They are gone, and `check` does not bring them back. */
  forget(): void {
    this.#isWanted = false
    this.#areAttached = false
  }
}
