/**
 * The steps of the set-up. Each knows whether it has anything to do, and does it.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { bundledNode, bundleHash, isStamped, packagesProblem, stamp } from './fresh.mjs'
import { isBpffs, missingPackages, SYSTEM_PACKAGES, searchFolders } from './system.mjs'

/** The set-up cannot go on; `message` says what is missing and what to do. Exit code 2 is "your turn", 1 a failed build. */
export class SetupError extends Error {
  /**
   * @param {string} message
   * @param {1 | 2} exitCode
   */
  constructor(message, exitCode) {
    super(message)
    this.name = 'SetupError'
    /** @type {1 | 2} */
    this.exitCode = exitCode
  }
}

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {(root: string) => string | undefined} due What it would do, or nothing when all is done.
 * @property {(root: string) => void} run Throws a `SetupError`.
 */

const BPFFS = '/sys/fs/bpf'
const isRoot = () => process.getuid?.() === 0

/**
 * Runs a command, keeps its output for the case of failure.
 *
 * @param {string} root
 * @param {readonly [string, ...string[]]} argv
 * @param {Record<string, string>} env
 */
function execute(root, argv, env = {}) {
  const [command, ...args] = argv
  const result = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, ...env },
    maxBuffer: 64 * 1024 * 1024,
  })
  if (result.status === 0) return
  const why = result.error?.message ?? `exit code ${result.status ?? result.signal}`
  const output = `${result.stdout ?? ''}${result.stderr ?? ''}`.trimEnd().split('\n').slice(-40)
  throw new SetupError(`\`${argv.join(' ')}\` failed (${why})\n${output.join('\n')}`, 1)
}

/**
 * Packages that matter to this user: without root the demo and the root tests do not run, so `run` ones may lack.
 *
 * @param {boolean} forVm
 */
function packagesDue(forVm) {
  return missingPackages(SYSTEM_PACKAGES, searchFolders()).filter(({ use }) =>
    forVm ? use === 'vm' : use === 'build' || (use === 'run' && isRoot()),
  )
}

/**
 * @param {string} name
 * @param {boolean} forVm
 * @returns {Step}
 */
const packagesStep = (name, forVm) => ({
  name,
  due: () => {
    const names = packagesDue(forVm).map((wanted) => wanted.name)
    return names.length === 0 ? undefined : `installing ${names.join(', ')} with apt-get`
  },
  run: (root) => {
    const names = packagesDue(forVm).map((wanted) => wanted.name)
    const apt = searchFolders().binaries.some((folder) => existsSync(join(folder, 'apt-get')))
    if (!isRoot() || !apt) {
      const how = apt ? `sudo apt-get install ${names.join(' ')}` : "your distribution's package manager"
      throw new SetupError(`system packages are missing: ${names.join(', ')} (install them: ${how})`, 2)
    }
    const quiet = { DEBIAN_FRONTEND: 'noninteractive' }
    execute(root, ['apt-get', 'update'], quiet)
    execute(root, ['apt-get', 'install', '--yes', '--no-install-recommends', ...names], quiet)
    const still = packagesDue(forVm).map((wanted) => wanted.name)
    if (still.length > 0) {
      throw new SetupError(`installed, and yet files of these packages are not found: ${still.join(', ')}`, 2)
    }
  },
})

const systemPackages = packagesStep('system packages', false)

/** What `npm run vm` needs beside all the rest: QEMU, and what makes images. */
export const VM_PACKAGES = packagesStep('packages for virtual machines', true)

/** PATH without our own node_modules: `npm ci` deletes the Node.js it would find there. */
function outerPath() {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .join(delimiter)
}

/** @type {Step} */
const npmPackages = {
  name: 'npm packages',
  due: (root) => {
    const problem = packagesProblem(root)
    return problem === undefined ? undefined : `npm ci (${problem})`
  },
  run: (root) => {
    const path = outerPath()
    if (!path.split(delimiter).some((folder) => existsSync(join(folder, 'npm')))) {
      throw new SetupError('npm is not on the PATH: install Node.js 20 or newer together with npm', 2)
    }
    // Our packages ship their binaries inside: install scripts have nothing to add.
    execute(root, ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], { PATH: path })
    if (bundledNode(root) === undefined && Number.parseInt(process.versions.node, 10) < 24) {
      throw new SetupError(
        `no Node.js 24 comes as a package for ${process.platform}-${process.arch}: install it and run again`,
        2,
      )
    }
  },
}

const COMMAND = 'node_modules/.bin/sluice'
const COMMAND_TARGET = '../../tools/setup/sluice.mjs'

/**
 * npm does not link the commands of the package one works in; without the link `npx sluice` asks
 * whether it may install it first.
 *
 * @type {Step}
 */
const command = {
  name: 'command',
  due: (root) => {
    const path = join(root, COMMAND)
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
    return isLink && readlinkSync(path) === COMMAND_TARGET ? undefined : `${COMMAND}, for npx sluice`
  },
  run: (root) => {
    rmSync(join(root, COMMAND), { force: true })
    symlinkSync(COMMAND_TARGET, join(root, COMMAND))
  },
}

/** @type {Step} */
const bpfFileSystem = {
  name: 'BPF file system',
  due: () => {
    if (!isRoot() || isBpffs(readFileSync('/proc/self/mountinfo', 'utf8'), BPFFS)) return undefined
    return `mounting it at ${BPFFS}`
  },
  run: (root) => {
    if (!existsSync(BPFFS)) {
      throw new SetupError(`${BPFFS} does not exist: the kernel lacks eBPF, or /sys is not mounted here`, 2)
    }
    execute(root, ['mount', '-t', 'bpf', 'bpf', BPFFS])
  },
}

/** @type {Step} */
const bpfObjects = {
  name: 'BPF objects',
  due: (root) => {
    if (!existsSync(join(root, 'bpf/Makefile'))) return undefined
    const question = spawnSync('make', ['--question', '-C', 'bpf'], { cwd: root })
    return question.status === 0 ? undefined : 'make -C bpf'
  },
  run: (root) => {
    mkdirSync(join(root, 'build'), { recursive: true })
    execute(root, ['make', '--no-print-directory', '-C', 'bpf'])
  },
}

/** @type {Step} */
const bundle = {
  name: 'bundle of the daemon',
  due: (root) => {
    if (!existsSync(join(root, 'control/main.ts'))) return undefined
    const current = existsSync(join(root, 'build/sluice.mjs')) && isStamped(root, 'bundle', bundleHash(root))
    return current ? undefined : 'esbuild control/main.ts'
  },
  run: (root) => {
    const hash = bundleHash(root)
    execute(root, [process.execPath, 'tools/setup/bundle.mjs', 'control/main.ts', 'build/sluice.mjs'])
    stamp(root, 'bundle', hash)
  },
}

/** In order: each may use what the ones before it brought. */
export const STEPS = [systemPackages, npmPackages, command, bpfFileSystem, bpfObjects, bundle]
