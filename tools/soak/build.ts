/** Another build of Sluice, for an upgrade: the same daemon with other programs. */

import { execFileSync } from 'node:child_process'
import { copyFileSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { bundleHash, isStamped } from '../setup/fresh.mjs'

const ROOT = join(import.meta.dirname, '../..')
/** Every program comes out otherwise. */
const OPTIMISE = '-Os'

/** Makes it in a folder; returns its `sluice.mjs`. Needs clang. The daemon's bundle is that of the clone where it is current. */
export function buildOther(folder: string): string {
  const build = join(folder, 'build')
  const program = join(build, 'sluice.mjs')
  execFileSync('make', ['-s', '-j2', '-C', join(ROOT, 'bpf'), `BUILD=${build}`, `OPTIMISE=${OPTIMISE}`])
  if (isStamped(ROOT, 'bundle', bundleHash(ROOT))) {
    const parts = readdirSync(join(ROOT, 'build')).filter((name) => name.endsWith('.mjs'))
    for (const name of parts) copyFileSync(join(ROOT, 'build', name), join(build, name))
  } else {
    const bundle = join(ROOT, 'tools/setup/bundle.mjs')
    execFileSync(process.execPath, [bundle, join(ROOT, 'control/main.ts'), program])
  }
  // What the bundle leaves outside is found beside it.
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return program
}
