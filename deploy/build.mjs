/** Builds what the image holds, and nothing of what only a developer's machine needs. */

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { STEPS } from '../tools/setup/steps.mjs'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..')
const WANTED = ['BPF objects', 'bundle of the daemon']

for (const name of WANTED) {
  const step = STEPS.find((each) => each.name === name)
  if (step === undefined) throw new Error(`the set-up has no step ${name}`)
  step.run(ROOT)
}
