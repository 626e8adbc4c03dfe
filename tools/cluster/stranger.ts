/**
 * `stranger.ts head|tail OBJECT IFINDEX|all`: somebody else's program at that end of both chains of a device of this
 * network namespace, or of all its devices but the loopback, until standard input ends. Says when it is there.
 */

import { execFileSync } from 'node:child_process'
import { attachTcx, loadObject, readSpec } from 'libbpf-ts'

const [at = '', path = '', devices = ''] = process.argv.slice(2)
if (at !== 'head' && at !== 'tail') throw new Error(`${at}: takes head or tail`)
const object = loadObject(readSpec(path))
const program = object.program('stranger')
const links = indexesOf(devices).flatMap((ifindex) =>
  (['ingress', 'egress'] as const).map((direction) => attachTcx({ program, ifindex, direction, at })),
)
process.stdout.write('attached\n')
process.stdin.resume()
process.stdin.on('end', () => {
  for (const link of links) link.close()
  object.close()
})

function indexesOf(text: string): number[] {
  if (text !== 'all') return [Number(text)]
  const links: readonly { readonly ifindex: number; readonly ifname: string }[] = JSON.parse(
    execFileSync('ip', ['-json', 'link', 'show'], { encoding: 'utf8' }),
  )
  return links.filter(({ ifname }) => ifname !== 'lo').map(({ ifindex }) => ifindex)
}
