/**
 * What a daemon gives to `iptables-restore`: programs of that name, ahead of the real ones on its path, keep each input in
 * a file before they go on, and refuse one if they are asked to.
 */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { RowFamily } from '../types.ts'

const COMMANDS: Readonly<Record<RowFamily, string>> = { 4: 'iptables', 6: 'ip6tables' }
const FLAVOURS = ['nft', 'legacy'] as const
const EXECUTABLE = 0o755

/** The inputs up to a moment. */
export type Mark = ReadonlySet<string>

export class RestoreRecorder {
  readonly #programs: string
  readonly #inputs: string

  /** Its files are in a folder of its own in this one. */
  constructor(folder: string) {
    const own = mkdtempSync(join(folder, 'restores-'))
    this.#programs = join(own, 'bin')
    this.#inputs = join(own, 'inputs')
    mkdirSync(this.#programs)
    mkdirSync(this.#inputs)
    for (const command of Object.values(COMMANDS)) {
      for (const flavour of FLAVOURS) {
        const name = `${command}-${flavour}-restore`
        writeFileSync(join(this.#programs, name), this.#script(name, command), { mode: EXECUTABLE })
      }
    }
  }

  /** The words before a daemon's command. */
  get launcher(): readonly string[] {
    return ['env', `PATH=${this.#programs}${delimiter}${process.env['PATH'] ?? ''}`]
  }

  mark(): Mark {
    return new Set(readdirSync(this.#inputs))
  }

  /** The inputs of a family since then, in their order. */
  since(mark: Mark, family: RowFamily): readonly string[] {
    return readdirSync(this.#inputs)
      .filter((name) => !mark.has(name) && name.endsWith(`.${COMMANDS[family]}`))
      .sort()
      .map((name) => readFileSync(join(this.#inputs, name), 'utf8'))
  }

  /** The next one of the family is refused, and changes nothing. */
  refuseNext(family: RowFamily): void {
    writeFileSync(this.#refusal(COMMANDS[family]), '')
  }

  #refusal(command: string): string {
    return join(this.#programs, `refuse-${command}`)
  }

  #script(name: string, command: string): string {
    return `#!/bin/sh
part=$(mktemp '${this.#programs}/input.XXXXXX')
cat > "$part"
kept="${this.#inputs}/$(date +%s%N).${command}"
mv "$part" "$kept"
if rm '${this.#refusal(command)}' 2> /dev/null; then
  echo '${name}: refused by the test' >&2
  exit 1
fi
PATH='${process.env['PATH'] ?? ''}' exec ${name} "$@" < "$kept"
`
  }
}
