/**
 * Writes the codecs of the control plane from the compiled BPF objects: `npm run gen [-- FILE]`.
 * With `--check` it writes nothing, and exits 1 when what is there is not what it would write.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { emitModule, type Families } from './emit.ts'
import { readLayout } from './layout.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

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

const { values: options, positionals } = parseArgs({
  options: { check: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const target = path.resolve(positionals[0] ?? path.join(ROOT, 'control/layout/generated.ts'))
const shown = path.relative(process.cwd(), target)
const current = existsSync(target) ? readFileSync(target, 'utf8') : undefined
try {
  const wanted = generate()
  if (wanted === current) console.log(`${shown} is up to date`)
  else if (options.check) {
    console.error(`${shown} is stale: run npm run gen and commit it`)
    process.exitCode = 1
  } else {
    writeFileSync(target, wanted)
    console.log(`${shown} written`)
  }
} catch (cause) {
  console.error(`cannot generate ${shown}: ${cause instanceof Error ? cause.message : cause}`)
  process.exitCode = 1
}
