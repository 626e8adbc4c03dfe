#!/usr/bin/env node
/**
 * `node tools/setup/setup.mjs [--demo | --vm]`: makes a fresh clone ready, says in one line a step what it
 * does, and has nothing to do the second time. `--demo` first asks for what the demo needs: root
 * and `bpf(2)`. `--vm` also brings what boots other kernels. Everything goes to standard error, so that a command may run it on its way.
 *
 * Exit codes: 0 ready, 1 a build failed, 2 something is missing that only the caller can supply.
 */

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SetupError, STEPS, VM_PACKAGES } from './steps.mjs'
import { currentPrivilegeProblem } from './system.mjs'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..')

/** @param {string} text */
const say = (text) => process.stderr.write(`set-up: ${text}\n`)

/** @param {number} start Milliseconds. */
const secondsSince = (start) => `${((Date.now() - start) / 1000).toFixed(1)} s`

/** @param {readonly string[]} args */
function setUp(args) {
  const unknown = args.find((arg) => arg !== '--demo' && arg !== '--vm')
  if (unknown !== undefined)
    throw new SetupError(`unknown argument ${unknown}: it takes --demo, --vm or nothing`, 2)
  const problem = args.includes('--demo') ? currentPrivilegeProblem() : undefined
  if (problem !== undefined) throw new SetupError(problem, 2)
  const start = Date.now()
  let done = 0
  for (const step of args.includes('--vm') ? [...STEPS, VM_PACKAGES] : STEPS) {
    const task = step.due(ROOT)
    if (task === undefined) continue
    const stepStart = Date.now()
    say(`${step.name}: ${task} …`)
    step.run(ROOT)
    say(`${step.name}: done in ${secondsSince(stepStart)}`)
    done += 1
  }
  say(done === 0 ? `nothing to do (${secondsSince(start)})` : `ready (${secondsSince(start)})`)
}

try {
  setUp(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  say(error.message)
  process.exitCode = error.exitCode
}
