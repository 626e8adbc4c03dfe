/** Lines out of a stream of bytes. */

import type { Readable } from 'node:stream'

/** Calls back for every line of a stream, without its end. What follows the last newline is not a line. */
export function readLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    // Only what is new is searched: a line may be of many chunks.
    const [first = '', ...more] = chunk.split('\n')
    const lines = [rest + first, ...more]
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}
