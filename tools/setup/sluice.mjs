#!/usr/bin/env node
/**
 * The command `sluice`. Runs under any Node.js from 20 on and brings the one it needs: from a fresh
 * clone it sets up first; under an older Node.js it starts Node.js 24 from `node_modules`.
 */

import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { launch, program, setUpIfNew } from './launch.mjs'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..')

const setUpCode = setUpIfNew(ROOT)
if (setUpCode === 0) {
  const { node, script } = program(ROOT, process.versions.node, process.execPath)
  if (node === process.execPath) {
    // This Node.js will do: no second process between the terminal and the program.
    process.argv[1] = script
    await import(pathToFileURL(script).href)
  } else {
    launch(node, [script, ...process.argv.slice(2)])
  }
} else {
  process.exitCode = setUpCode
}
