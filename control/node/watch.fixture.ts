/** Run by a test inside a network namespace: prints each snapshot of the watch as a line of JSON. */

import { writeSync } from 'node:fs'
import { classifyDevices, NO_PATTERNS } from './classify.ts'
import { watchNode } from './watch.ts'

const end = new AbortController()
await watchNode(
  (node) => {
    const devices = classifyDevices(node, process.argv.slice(2), NO_PATTERNS).map((device) => ({
      ...node.devices.get(device.ifindex),
      ...device,
      mac: Buffer.from(device.mac).toString('hex'),
    }))
    const gateways = Object.fromEntries(node.gateways)
    writeSync(1, `${JSON.stringify({ devices, addresses: node.addresses, gateways })}\n`)
  },
  { signal: end.signal, log: { warn: (message, fields) => console.error(message, fields) } },
)
process.stdin.on('end', () => end.abort()).resume()
