/** `inject.ts OBJECT IFINDEX FRAME`: sends a frame, in hexadecimal digits, out of a device of this network namespace. */

import { loadObject, readSpec } from 'libbpf-ts'

const [path = '', ifindex = '', frame = ''] = process.argv.slice(2)
using object = loadObject(readSpec(path), { constants: { ifindex: Number(ifindex) } })
const { returnValue } = object.program('inject').testRun({ data: Buffer.from(frame, 'hex') })
if (returnValue !== 0)
  throw new Error(`the kernel did not send the frame: bpf_clone_redirect says ${returnValue}`)
