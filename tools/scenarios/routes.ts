/** The routes of the little cluster: the router between its parts, and what each member learned of its paths. */

import { spawnSync } from 'node:child_process'
import type { MemberName, Stage } from '../cluster/index.ts'

/** As `ip -n ROUTER …`. Throws with what it says when it fails. */
export function onRouter({ cluster }: Stage, ...words: readonly string[]): void {
  const { status, stderr } = spawnSync('ip', ['-n', `${cluster.prefix}-router`, ...words], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${stderr.trim()}`)
}

function familyOf(address: string): '-4' | '-6' {
  return address.includes(':') ? '-6' : '-4'
}

/** The MTU that a member's routes give for an address, as people ask for it. */
export async function mtuTo(stage: Stage, member: MemberName, address: string): Promise<number | undefined> {
  const argv = ['ip', '-json', familyOf(address), 'route', 'get', address] as const
  const { stdout } = await stage.cluster.member(member).exec(argv)
  const [route]: readonly { readonly metrics?: readonly { readonly mtu?: number }[] }[] = JSON.parse(stdout)
  return route?.metrics?.find(({ mtu }) => mtu !== undefined)?.mtu
}

/** Nobody remembers the MTU of a path. */
export async function forgetMtus(stage: Stage): Promise<void> {
  await Promise.all(
    stage.cluster.members.flatMap((member) =>
      ['-4', '-6'].map((family) => member.exec(['ip', family, 'route', 'flush', 'cache'])),
    ),
  )
}
