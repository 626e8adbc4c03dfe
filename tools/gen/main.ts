/**
 * Writes what is generated of the control plane, its documentation and its manifests: `npm run gen [-- FOLDER]`, into this repository or, laid out in the same
 * way, into another folder. With `--check` it writes nothing, and exits 1 when what is there is not what it would write.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { emitConfigurationPage, emitConfigurationSchema } from './configuration.ts'
import { emitDashboard } from './dashboard.ts'
import { emitBase, emitInstall } from './deploy.ts'
import { emitModule, type Families } from './emit.ts'
import { readLayout } from './layout.ts'
import { emitMessages } from './messages.ts'
import { emitMetricsPage } from './metrics.ts'
import { emitRequirementsPage } from './requirements.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** What is generated, and from what. */
const MODULES: Readonly<Record<string, () => string>> = {
  'control/layout/generated.ts': generateCodecs,
  'control/source/kubernetes/generated.ts': generateMessages,
  'deploy/grafana/sluice.json': emitDashboard,
  'deploy/install.yaml': emitInstall,
  'deploy/kustomize/base/sluice.yaml': emitBase,
  'deploy/sluice-configuration.schema.json': emitConfigurationSchema,
  'docs/configuration.md': emitConfigurationPage,
  'docs/metrics.md': emitMetricsPage,
  'docs/requirements.md': emitRequirementsPage,
}

/** The codecs of the maps, from the compiled BPF objects. */
function generateCodecs(): string {
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

function readFamily(family: 4 | 6) {
  const file = path.join(ROOT, `build/datapath${family}.bpf.o`)
  return existsSync(file) ? readLayout(readFileSync(file), file) : undefined
}

/** The readers of the API's messages. */
function generateMessages(): string {
  const proto = path.join(ROOT, 'control/source/kubernetes/kubernetes.proto')
  return emitMessages(readFileSync(proto, 'utf8'), './wire.ts')
}

const { values: options, positionals } = parseArgs({
  options: { check: { type: 'boolean', default: false } },
  allowPositionals: true,
})
for (const [place, generate] of Object.entries(MODULES)) {
  const target = path.resolve(positionals[0] ?? ROOT, place)
  const shown = path.relative(process.cwd(), target)
  const current = existsSync(target) ? readFileSync(target, 'utf8') : undefined
  try {
    const wanted = generate()
    if (wanted === current) console.log(`${shown} is up to date`)
    else if (options.check) {
      console.error(`${shown} is stale: run npm run gen and commit it`)
      process.exitCode = 1
    } else {
      mkdirSync(path.dirname(target), { recursive: true })
      writeFileSync(target, wanted)
      console.log(`${shown} written`)
    }
  } catch (cause) {
    console.error(`cannot generate ${shown}: ${cause instanceof Error ? cause.message : cause}`)
    process.exitCode = 1
  }
}
