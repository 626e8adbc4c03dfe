/**
 * Writes the codecs of the control plane from the compiled BPF objects (`npm run gen`).
 * With `--check` it writes nothing, and exits 1 when what is there is not what it would write.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { emitModule, type Families } from './emit.ts'
import { readLayout } from './layout.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const TARGET = 'control/layout/generated.ts'

function readFamily(family: 4 | 6) {
  const file = path.join(ROOT, `build/datapath${family}.bpf.o`)
  return existsSync(file) ? readLayout(readFileSync(file), file) : undefined
}

function generate(): string {
  // From the sources as they are now, whatever was built before.
  execFileSync('make', ['--silent', '-C', path.join(ROOT, 'bpf')], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const ipv4 = readFamily(4)
  const ipv6 = readFamily(6)
  if (ipv4 === undefined) throw new Error('build/datapath4.bpf.o is missing after make -C bpf')
  const families: Families = ipv6 === undefined ? { 4: ipv4 } : { 4: ipv4, 6: ipv6 }
  return emitModule(families)
}

const { values: options } = parseArgs({ options: { check: { type: 'boolean', default: false } } })
const target = path.join(ROOT, TARGET)
const current = existsSync(target) ? readFileSync(target, 'utf8') : undefined
try {
  const wanted = generate()
  if (wanted === current) console.log(`${TARGET} is up to date`)
  else if (options.check) {
    console.error(`${TARGET} is stale: run npm run gen and commit it`)
    process.exitCode = 1
  } else {
    writeFileSync(target, wanted)
    console.log(`${TARGET} written`)
  }
} catch (cause) {
  console.error(`cannot generate ${TARGET}: ${cause instanceof Error ? cause.message : cause}`)
  process.exitCode = 1
}
