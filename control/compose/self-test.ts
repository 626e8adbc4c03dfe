/** Asks now and then whether the socket programs run for this process, and says what to do when they do not. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Mount, mountsOfType } from 'libbpf-ts'
import type { SelfTestOutcome } from '../dataplane/bpf/socket-self-test.ts'
import type { Logger } from '../log.ts'

export type SelfTestOutcomes = ReadonlyMap<string, SelfTestOutcome>

export interface SelfTestOptions {
  readonly test: () => Promise<SelfTestOutcomes>
  /** The folder that the programs are attached to. */
  readonly cgroupRoot: string
  /** The folder of this process in the hierarchy of version 2; undefined where it cannot be seen. */
  readonly ownCgroup: () => string | undefined
  readonly log: Pick<Logger, 'info' | 'warn'>
}

export class SelfTest {
  readonly #options: SelfTestOptions
  #told: string | undefined

  constructor(options: SelfTestOptions) {
    this.#options = options
  }

  /** A trouble is told once, and its end. Rejects with what `test` does. */
  async look(): Promise<void> {
    const { test, cgroupRoot, ownCgroup, log } = this.#options
    const problem = selfTestProblem(await test(), cgroupRoot, ownCgroup())
    if (problem === this.#told) return
    if (problem === undefined) log.info('the socket programs run again: processes of this node are served')
    else log.warn(problem)
    this.#told = problem
  }
}

/** What is wrong and what to do, in one line; undefined when nothing is. Pure. */
export function selfTestProblem(
  outcomes: SelfTestOutcomes,
  cgroupRoot: string,
  ownCgroup: string | undefined,
): string | undefined {
  const names = (type: SelfTestOutcome['type']) =>
    Array.from(outcomes, ([name, outcome]) => (outcome.type === type ? [name] : [])).flat()
  const refused = names('refused')
  if (refused.length > 0) {
    const errors = [...outcomes.values()].flatMap((outcome) =>
      outcome.type === 'refused' ? [outcome.error] : [],
    )
    return (
      `sockets of this node (${refused.join(', ')}) cannot connect to services: ${[...new Set(errors)].join(', ')}. ` +
      `Another program on the hooks refuses it: \`bpftool cgroup tree ${cgroupRoot}\` shows all of them`
    )
  }
  const past = names('past')
  if (past.length === 0) return undefined
  const what = `the socket programs (${past.join(', ')}) are attached to ${cgroupRoot} and do not run for this process: `
  if (ownCgroup !== undefined && !isBelow(ownCgroup, cgroupRoot)) {
    return (
      `${what}it is in ${ownCgroup}, and so may be others that are to be served. Give --cgroup-root a folder that holds ` +
      'all of them; without it the root is taken'
    )
  }
  return (
    `${what}processes of this node reach no services. Is it the node's own hierarchy? \`findmnt -t cgroup2\` shows the ` +
    `mounts, \`bpftool cgroup tree ${cgroupRoot}\` who else is on the hooks`
  )
}

function isBelow(folder: string, root: string): boolean {
  return root === folder || folder.startsWith(root.endsWith('/') ? root : `${root}/`)
}

/** Where this process is, seen through a mount that shows all of the hierarchy that this process knows. */
export function ownCgroupFolder(
  text: string = readFileSync('/proc/self/cgroup', 'utf8'),
  mounts: readonly Mount[] = mountsOfType('cgroup2'),
): string | undefined {
  const path = /^0::(.*)$/m.exec(text)?.[1]
  const mount = mounts.find(({ root }) => root === '/')
  return path === undefined || mount === undefined ? undefined : join(mount.path, path)
}
