/**
 * `stranger.ts OBJECT IFINDEX`: somebody else's program at the head of the ingress chain of a device of this network
 * namespace, until standard input ends. Says when it is there.
 */

import { attachTcx, loadObject, readSpec } from 'libbpf-ts'

const [path = '', ifindex = ''] = process.argv.slice(2)
const object = loadObject(readSpec(path))
const link = attachTcx({
  program: object.program('stranger'),
  ifindex: Number(ifindex),
  direction: 'ingress',
  at: 'head',
})
process.stdout.write('attached\n')
process.stdin.resume()
process.stdin.on('end', () => {
  link.close()
  object.close()
})
