/** What `iptables-save` prints, read: for tests that compare. */

/** Rules by chain, in their order, without counters; built-in chains with their policy. */
export interface SavedTable {
  readonly chains: ReadonlyMap<string, readonly string[]>
}

/** By the name of the table. Throws for a line that it does not know. */
export function readSave(text: string): ReadonlyMap<string, SavedTable> {
  const tables = new Map<string, { chains: Map<string, string[]> }>()
  let chains = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [word = '', name = ''] = line.split(' ', 2)
    if (line === '' || line.startsWith('#') || line === 'COMMIT') continue
    if (line.startsWith('*')) {
      chains = new Map()
      tables.set(line.slice(1), { chains })
    } else if (word.startsWith(':')) {
      chains.set(word.slice(1), [])
    } else if (word === '-A') {
      chains.get(name)?.push(line.slice(`-A ${name} `.length))
    } else {
      throw new Error(`not a line of iptables-save: ${line}`)
    }
  }
  return tables
}
