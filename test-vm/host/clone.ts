/** The clone as a disk: the sources and what was built of them, as they are at this moment. */

import { cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { makeDisk } from './kernel.ts'
import { GUEST_CLONE } from './root.ts'

const LEFT_OUT = new Set(['.git', 'node_modules'])

/** Writes the image. */
export function makeCloneDisk(clone: string, image: string): void {
  const tree = `${image}.tree`
  try {
    const target = join(tree, GUEST_CLONE)
    mkdirSync(target, { recursive: true })
    for (const name of readdirSync(clone).filter((each) => !LEFT_OUT.has(each))) {
      cpSync(join(clone, name), join(target, name), {
        recursive: true,
        filter: isWanted,
        verbatimSymlinks: true,
      })
    }
    makeDisk(tree, image)
  } finally {
    rmSync(tree, { recursive: true, force: true })
  }
}

function isWanted(path: string): boolean {
  return !path.endsWith('/node_modules') && existsSync(path)
}
