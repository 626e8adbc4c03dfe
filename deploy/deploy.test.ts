/** What is deployed names what exists. No engine builds the image here: its steps are followed on this machine. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import type { RunOptions } from '../control/cli/options.ts'
import { type Commands, runProgram } from '../control/cli/program.ts'
import { CAPABILITIES } from '../control/cli/requirements.ts'
import packageJson from '../package.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '..')
const DOCKERFILE = readFileSync(join(import.meta.dirname, 'Dockerfile'), 'utf8')

const documents = parseAllDocuments(readFileSync(join(import.meta.dirname, 'install.yaml'), 'utf8'))
const objects = documents.map((document) => {
  assert.deepEqual([...document.errors, ...document.warnings], [])
  return document.toJS()
})
const podSpec = objects.find(({ kind }) => kind === 'DaemonSet').spec.template.spec
const [container] = podSpec.containers

test('install.yaml: one account, the role of a node proxy, one daemon set', () => {
  assert.deepEqual(
    objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
    ['ServiceAccount sluice', 'ClusterRoleBinding sluice', 'DaemonSet sluice'],
  )
  assert.equal(objects[1].roleRef.name, 'system:node-proxier')
  assert.equal(podSpec.serviceAccountName, 'sluice')
})

test('install.yaml: the arguments are what `sluice run` takes', async () => {
  let taken: RunOptions | undefined
  const run: Pick<Commands, 'run'> = {
    run: async (options) => {
      taken = options
    },
  }
  const args = container.args.map((arg: string) => arg.replace('$(NODE_NAME)', 'node-a'))
  const said: string[] = []
  const terminal = { out: (text: string) => said.push(text), err: (text: string) => said.push(text) }
  const code = await runProgram(args, 'v', run as Commands, terminal)
  assert.equal(code, 0, said.join(''))
  assert.equal(taken?.source.kind, 'kubernetes')
  assert.equal(taken?.nodeName, 'node-a')
  assert.equal(container.env[0].name, 'NODE_NAME')
})

test('install.yaml: the capabilities are those that the daemon asks for', () => {
  assert.deepEqual(container.securityContext.capabilities, { drop: ['ALL'], add: [...CAPABILITIES] })
})

test('install.yaml: every mount has its volume, and the folders that the arguments name are mounted', () => {
  const volumes = new Set(podSpec.volumes.map(({ name }: { name: string }) => name))
  const mounts = [container, ...podSpec.initContainers].flatMap(({ volumeMounts }) => volumeMounts)
  for (const { name } of mounts) assert.ok(volumes.has(name), name)
  const paths = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)
  assert.ok(paths.includes('/sys/fs/bpf'))
  const cgroupRoot = container.args.find((arg: string) => arg.startsWith('--cgroup-root='))?.split('=')[1]
  assert.ok(paths.includes(cgroupRoot))
})

test('install.yaml: the image is of this version, and the Dockerfile says how to build it', () => {
  const image = `sluice:${packageJson.version}`
  for (const each of [container, ...podSpec.initContainers]) assert.equal(each.image, image)
  assert.ok(DOCKERFILE.includes(`-t ${image} `))
})

/** `COPY A B … TARGET` of a stage, without those from another stage. */
const copies = [...DOCKERFILE.matchAll(/^COPY (?!--from)(.+)$/gm)].map((match) => (match[1] ?? '').split(' '))

test('Dockerfile: every path that is copied exists', () => {
  for (const path of copies.flatMap((words) => words.slice(0, -1))) {
    assert.ok(existsSync(join(ROOT, path)), path)
  }
})

test('Dockerfile: what is copied is enough to build, and what is kept is enough to run', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-image-'))
  const build = join(folder, 'build-stage')
  const image = join(folder, 'image')
  try {
    for (const words of copies) {
      for (const path of words.slice(0, -1)) cpSync(join(ROOT, path), join(build, path), { recursive: true })
    }
    linkPackages(build)
    execFileSync(process.execPath, [join(build, 'deploy/build.mjs')], { encoding: 'utf8' })
    for (const [, path = '', target = ''] of DOCKERFILE.matchAll(
      /^COPY --from=build \/sluice\/(\S+) (\S+)/gm,
    )) {
      const file = path.endsWith('/') ? '' : basename(path)
      cpSync(join(build, path), join(image, target, file), { recursive: true, dereference: true })
    }
    const [program = '', ...args] = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(DOCKERFILE)?.[1] ?? '[]') as string[]
    assert.equal(program, 'node')
    const probe = execFileSync(process.execPath, [...args, '--version'], { cwd: image, encoding: 'utf8' })
    assert.match(probe, new RegExp(`^sluice ${packageJson.version},`))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

/** As `npm ci` would have it: our own package is the one in the folder. */
function linkPackages(folder: string): void {
  const packages = join(folder, 'node_modules')
  mkdirSync(packages)
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    symlinkSync(name === 'libbpf-ts' ? '../loader' : join(ROOT, 'node_modules', name), join(packages, name))
  }
}
