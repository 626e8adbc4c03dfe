/** `node test-vm/suite/main.ts KERNEL CHECK…`, in a guest: does the checks and writes what came of them into $RESULTS. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHECKS, type Check, type Kernel, readKernels } from '../kernels.ts'
import { type GuestReport, type Outcome, REPORT_FILE } from '../results.ts'
import { fallback } from './fallback.ts'
import { findFeatures, judgeFeatures } from './features.ts'
import { loadAll } from './loads.ts'
import { conformance, demo, ownTests } from './plays.ts'
import { attempt } from './run.ts'

const features: string[] = []

const WORK: Readonly<Record<Check, (kernel: Kernel) => Outcome[] | Promise<Outcome[]>>> = {
  features: (kernel) => {
    features.push(...findFeatures())
    return judgeFeatures(kernel, features)
  },
  loads: loadAll,
  demo,
  conformance,
  links: () => ownTests('links'),
  ipvs: () => ownTests('ipvs'),
  fallback,
}

async function check(what: Check, kernel: Kernel): Promise<Outcome[]> {
  console.log(`test-vm: ${what}`)
  try {
    return await WORK[what](kernel)
  } catch (error) {
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return [{ check: what, name: what, result: 'failed', detail }]
  }
}

const [name, ...words] = process.argv.slice(2)
const kernel = readKernels().find((each) => each.name === name)
if (kernel === undefined) throw new Error(`test-vm/kernels.json has no kernel ${name}`)
const outcomes: Outcome[] = []
for (const what of CHECKS.filter((each) => words.includes(each)))
  outcomes.push(...(await check(what, kernel)))
const report: GuestReport = { release: attempt(['uname', '-r']).stdout.trim(), features, outcomes }
writeFileSync(join(process.env['RESULTS'] ?? '.', REPORT_FILE), JSON.stringify(report))
