/**
 * Is what was installed or built still the image of what it was made from? Asked at every start,
 * so it reads files and nothing else.
 */

import { createHash } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * A hash over the names and contents of files and of all files below folders.
 *
 * @param {string} root
 * @param {readonly string[]} inputs Relative to `root`; what does not exist counts as absent.
 * @param {(path: string) => boolean} [keep] Decides by the path relative to `root`, for files only.
 */
export function contentHash(root, inputs, keep = () => true) {
  const hash = createHash('sha256')
  /** @param {string} path */
  const visit = (path) => {
    const stat = lstatSync(join(root, path), { throwIfNoEntry: false })
    if (stat?.isDirectory()) {
      for (const name of readdirSync(join(root, path)).sort()) {
        if (name !== 'node_modules') visit(join(path, name))
      }
    } else if (stat?.isFile() && keep(path)) {
      hash.update(`${path}\0${stat.size}\0`).update(readFileSync(join(root, path)))
    }
  }
  for (const input of inputs) visit(input)
  return hash.digest('hex')
}

/**
 * @param {string} root
 * @param {string} name
 */
const stampPath = (root, name) => join(root, 'build/stamps', name)

/**
 * Was the thing called `name` made from inputs of this hash?
 *
 * @param {string} root
 * @param {string} name
 * @param {string} hash
 */
export function isStamped(root, name, hash) {
  const path = stampPath(root, name)
  return existsSync(path) && readFileSync(path, 'utf8') === hash
}

/**
 * @param {string} root
 * @param {string} name
 * @param {string} hash
 */
export function stamp(root, name, hash) {
  const path = stampPath(root, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, hash)
}

/**
 * @typedef {{ version?: string, link?: boolean, optional?: boolean }} LockEntry
 * @typedef {{ packages?: Record<string, LockEntry> }} Lock
 */

/**
 * The first package that `package-lock.json` wants and `node_modules` lacks or has in another
 * version, by its folder. Compares with the list npm keeps in `node_modules/.package-lock.json`.
 * Optional ones may be absent: they are for other machines.
 *
 * @param {Lock} wanted
 * @param {Lock} installed
 * @returns {string | undefined}
 */
export function firstStalePackage(wanted, installed) {
  for (const [folder, entry] of Object.entries(wanted.packages ?? {})) {
    if (!folder.startsWith('node_modules/')) continue
    const held = installed.packages?.[folder]
    if (held === undefined && entry.optional === true) continue
    if (held === undefined || held.version !== entry.version) return folder
  }
  return undefined
}

/**
 * Why `npm ci` has to run, or nothing.
 *
 * @param {string} root
 * @returns {string | undefined}
 */
export function packagesProblem(root) {
  const hidden = join(root, 'node_modules/.package-lock.json')
  if (!existsSync(hidden)) return 'node_modules is missing'
  if (bundledNode(root) === undefined && BUNDLED_ARCHITECTURES.includes(process.arch)) {
    return 'Node.js 24 is missing from node_modules'
  }
  const stale = firstStalePackage(
    JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')),
    JSON.parse(readFileSync(hidden, 'utf8')),
  )
  return stale === undefined ? undefined : `${stale} is not the one in the lock`
}

const BUNDLED_ARCHITECTURES = ['x64', 'arm64']

/**
 * Node.js 24 from the optional dependency for this architecture, if it is installed.
 *
 * @param {string} root
 * @returns {string | undefined}
 */
export function bundledNode(root) {
  const path = join(root, `node_modules/node-linux-${process.arch}/bin/node`)
  return existsSync(path) ? path : undefined
}

/** @param {string} path */
const isProgramSource = (path) =>
  (path.endsWith('.ts') && !path.endsWith('.test.ts')) || path.endsWith('.json')

/**
 * The hash of everything that goes into the bundle of the daemon.
 *
 * @param {string} root
 */
export function bundleHash(root) {
  return contentHash(
    root,
    [
      'control',
      'loader/src',
      'loader/package.json',
      'package.json',
      'package-lock.json',
      'tools/setup/bundle.mjs',
    ],
    isProgramSource,
  )
}
