/**
 * Finds the program and the Node.js to run it, and stands between the two when they differ.
 */

import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { bundledNode, bundleHash, isStamped } from './fresh.mjs'

/** The first Node.js that runs TypeScript without a flag. */
const OLDEST_NODE = [22, 18]

/** Signals that mean "do something" to a program; the others either cannot be caught or are faults of the process itself. */
const FORWARDED = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'])

/** @param {string} version As in `process.versions.node`. */
export function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)
}

/** @param {string} root */
const isClone = (root) => existsSync(join(root, 'control/main.ts'))

/**
 * Sets up a clone that never was, with the output on standard error. Later changes of sources need
 * no set-up: the sources themselves run then.
 *
 * @param {string} root
 * @returns {number} 0 or the exit code of the set-up.
 */
export function setUpIfNew(root) {
  if (!isClone(root) || existsSync(join(root, 'node_modules/.package-lock.json'))) return 0
  const result = spawnSync(process.execPath, [join(root, 'tools/setup/setup.mjs')], {
    stdio: ['ignore', 2, 2],
  })
  return result.status ?? 1
}

/**
 * What to run: the bundle, or in a clone whose sources are newer, the sources; and with which Node.js.
 *
 * @param {string} root
 * @param {string} version Of the running Node.js.
 * @param {string} execPath Of the running Node.js.
 * @returns {{ node: string, script: string }}
 */
export function program(root, version, execPath) {
  const built = join(root, 'build/sluice.mjs')
  const isCurrent = existsSync(built) && (!isClone(root) || isStamped(root, 'bundle', bundleHash(root)))
  const node = isNewEnough(version) ? execPath : (bundledNode(root) ?? execPath)
  return { node, script: isCurrent ? built : join(root, 'control/main.ts') }
}

/**
 * Runs Node.js in the place of this process: same terminal, same signals, same end.
 *
 * @param {string} node
 * @param {readonly string[]} args
 */
export function launch(node, args) {
  const child = spawn(node, args, { stdio: 'inherit' })
  for (const signal of FORWARDED) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the whole group: the child has it already, and a second one means "at once".
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
  child.on('error', (error) => {
    process.stderr.write(`sluice: cannot start ${node}: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    // A shell reports a death by signal N as 128 + N.
    process.exitCode = code ?? (signal === null ? 1 : 128 + constants.signals[signal])
  })
}
