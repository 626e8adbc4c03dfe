/** Edits to manifests as a person would make them in an editor: on the text, comments kept. Pure. */

/** The manifest without the endpoint of this address. Throws when it has none. */
export function withoutEndpoint(manifest: string, address: string): string {
  const lines = manifest.split('\n')
  const start = lines.findIndex((line) => line.trimStart().startsWith(`- addresses: [${address}]`))
  if (start === -1) throw new Error(`no endpoint has the address ${address}`)
  const indent = indentOf(lines[start] ?? '')
  let end = start + 1
  while (end < lines.length && indentOf(lines[end] ?? '') > indent) end += 1
  return [...lines.slice(0, start), ...lines.slice(end)].join('\n')
}

/** The manifest whose empty slice has got its first endpoint. Throws when no slice is empty. */
export function withFirstEndpoint(
  manifest: string,
  endpoint: {
    readonly port: string
    readonly address: string
    readonly targetPort: number
    readonly node: string
  },
): string {
  const empty = 'ports: []\nendpoints: []\n'
  if (!manifest.includes(empty)) throw new Error('no slice is empty')
  const { port, address, targetPort, node } = endpoint
  return manifest.replace(
    empty,
    `ports:
  - name: ${port}
    protocol: TCP
    port: ${targetPort}
endpoints:
  - addresses: [${address}]
    nodeName: ${node}
`,
  )
}

function indentOf(line: string): number {
  return line.trim() === '' ? 0 : line.length - line.trimStart().length
}
