/** What is deployed names what exists. No engine builds the image here: its steps are followed on this machine. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  accessSync,
  constants,
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
import { type Commands, runProgram } from '../control/cli/program.ts'
import { CAPABILITIES } from '../control/cli/requirements.ts'
import { parseConfiguration } from '../control/config/configuration.ts'
import type { RunOptions } from '../control/config/options.ts'
import packageJson from '../package.json' with { type: 'json' }
import { chartData, defaultValues, merged, renderChart, yamlOf } from '../tools/gen/deploy.ts'
import type { Value } from '../tools/gen/template.ts'
import {
  documentsOf,
  fromChart,
  fromInstall,
  fromKustomize,
  kubectlIsHere,
  type Manifest,
  OVERLAYS,
  podSpecOf,
  renderedByGo,
  WITHOUT_KUBECTL,
} from './manifests.ts'
import { problemsOf } from './validate.ts'

const ROOT = join(import.meta.dirname, '..')
const DOCKERFILE = readFileSync(join(import.meta.dirname, 'Dockerfile'), 'utf8')
const COMMAND_FILE = join(import.meta.dirname, 'sluice')
const COMMAND = readFileSync(COMMAND_FILE, 'utf8')

const objects = fromInstall()
const podSpec = podSpecOf(objects)
const [container] = podSpec.containers

test('install.yaml: one account, the role of a node proxy, one daemon set', () => {
  assert.deepEqual(
    objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
    ['ServiceAccount sluice', 'ClusterRoleBinding sluice', 'DaemonSet sluice'],
  )
  const binding = objects[1] as Manifest & { roleRef: { name: string } }
  assert.equal(binding.roleRef.name, 'system:node-proxier')
  assert.equal(podSpec.serviceAccountName, 'sluice')
})

test('install.yaml: the arguments are what `sluice run` takes', async () => {
  let taken: RunOptions | undefined
  const run: Pick<Commands, 'run'> = {
    run: async (options) => {
      taken = options
    },
  }
  const args = container.args.map((arg) => arg.replace('$(NODE_NAME)', 'node-a'))
  const said: string[] = []
  const terminal = { out: (text: string) => said.push(text), err: (text: string) => said.push(text) }
  const code = await runProgram(args, 'v', run as Commands, terminal)
  assert.equal(code, 0, said.join(''))
  assert.equal(taken?.source.kind, 'kubernetes')
  assert.equal(taken?.nodeName, 'node-a')
  assert.equal(container.env[0]?.name, 'NODE_NAME')
})

test('install.yaml: the capabilities are those that the daemon asks for', () => {
  const { securityContext } = container
  assert.deepEqual(securityContext.capabilities.drop, ['ALL'])
  assert.deepEqual(securityContext.capabilities.add.toSorted(), CAPABILITIES.toSorted())
  assert.equal(securityContext.readOnlyRootFilesystem, true)
  assert.equal(securityContext.allowPrivilegeEscalation, false)
  assert.equal(securityContext.seccompProfile.type, 'RuntimeDefault')
})

test('kubeadm: no argument is in vain beside the configuration, which is where it is mounted', async () => {
  const pod = podSpecOf(fromChart(OVERLAYS['kubeadm']))
  const [{ args, volumeMounts }] = pod.containers
  let taken: RunOptions | undefined
  let path = ''
  const file = join(ROOT, 'control/config/testdata/kubeadm.yaml')
  const commands: Pick<Commands, 'run' | 'readConfiguration'> = {
    readConfiguration: async (paths) => {
      path = paths.join()
      return parseConfiguration([{ path, text: readFileSync(file, 'utf8') }])
    },
    run: async (options) => {
      taken = options
    },
  }
  const words = args.map((arg) => arg.replace('$(NODE_NAME)', 'node-a'))
  assert.equal(await runProgram(words, 'v', commands as Commands), 0)
  assert.deepEqual(taken?.warnings, [])
  assert.equal(taken?.nodeName, 'node-a')
  assert.deepEqual(taken?.source, {
    ...{ kind: 'kubernetes', apiServer: undefined },
    kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf',
  })
  // As kubeadm calls it in its ConfigMap.
  assert.equal(path, `${volumeMounts.find(({ name }) => name === 'kube-proxy')?.mountPath}/config.conf`)
})

/** The order of objects, and of the members of one, says nothing. */
const sorted = (manifests: readonly Manifest[]): Manifest[] =>
  manifests.toSorted((a, b) => `${a.kind} ${a.metadata.name}`.localeCompare(`${b.kind} ${b.metadata.name}`))

test('each overlay has its values of the chart', () => {
  const folders = readdirSync(join(import.meta.dirname, 'kustomize/overlays'))
  assert.deepEqual(folders.sort(), Object.keys(OVERLAYS).sort())
})

for (const [name, values] of Object.entries(OVERLAYS)) {
  test(`${name}: what the chart comes to is what the API server takes`, () => {
    assert.deepEqual(fromChart(values).flatMap(problemsOf), [])
  })
  test(`${name}: overlay and chart come to the same`, {
    skip: kubectlIsHere ? false : WITHOUT_KUBECTL,
  }, () => {
    assert.deepEqual(sorted(fromKustomize(`overlays/${name}`)), sorted(fromChart(values)))
  })
}

test('install.yaml, the base and the chart come to the same, which the API server takes', () => {
  assert.deepEqual(objects.flatMap(problemsOf), [])
  assert.deepEqual(objects, fromChart())
  const base = readFileSync(join(import.meta.dirname, 'kustomize/base/sluice.yaml'), 'utf8')
  assert.deepEqual(documentsOf(base), objects)
})

test('the base, as kustomize reads it', { skip: kubectlIsHere ? false : WITHOUT_KUBECTL }, () => {
  assert.deepEqual(sorted(fromKustomize('base')), sorted(objects))
})

test('what is patched into the DaemonSet of kube-proxy to change over node by node is what the API server takes', () => {
  const page = readFileSync(join(ROOT, 'docs/migration.md'), 'utf8')
  const [, patch = ''] = /patch daemonset kube-proxy --patch '([^']+)'/.exec(page) ?? []
  const daemonSet: unknown = objects.find(({ kind }) => kind === 'DaemonSet')
  assert.deepEqual(problemsOf(merged(daemonSet as Value, JSON.parse(patch))), [])
  assert.ok(page.includes('kubectl apply -k deploy/kustomize/overlays/labelled-nodes'))
})

/** What else is chosen by values, and must be in what comes of them. */
const CHOICES: readonly (readonly [values: Value, text: RegExp])[] = [
  [
    { apiServer: { host: '192.0.2.10', port: 443 } },
    /KUBERNETES_SERVICE_HOST\n +value: "192\.0\.2\.10"\n.*_PORT\n +value: "443"\n +ports:/,
  ],
  [{ image: { repository: 'registry.example/sluice', tag: 'v1' } }, /image: registry\.example\/sluice:v1\n/],
  [{ extraArgs: ['--cluster-cidr=10.244.0.0/16'] }, /- "--cluster-cidr=10\.244\.0\.0\/16"\n/],
  [{ resources: { limits: { memory: '400Mi' } } }, /limits:\n +memory: 400Mi\n/],
  [{ cgroupRoot: '/run/cgroup2' }, /path: \/run\/cgroup2\n/],
  [{ seccompProfile: 'Unconfined' }, /seccompProfile:\n +type: Unconfined\n/],
  [{ metricsAddress: '[::]' }, /- --metrics-bind-address=\[::\]:10249\n/],
  [{ socketLoadBalancing: 'all' }, /- --socket-load-balancing=all\n/],
]

test('each value of the chart has its place', () => {
  for (const [values, text] of CHOICES) {
    assert.match(renderChart(values), text)
    assert.deepEqual(fromChart(values).flatMap(problemsOf), [], JSON.stringify(values))
  }
  const shown = renderChart({ apiServer: { host: 'api.example' } }, 'NOTES.txt')
  assert.doesNotMatch(shown, /ClusterIP/)
  assert.match(renderChart({}, 'NOTES.txt'), /No apiServer\.host is set/)
})

test('the templates of the chart, as Go renders them', {
  skip: kubectlIsHere ? false : WITHOUT_KUBECTL,
}, () => {
  const folder = join(import.meta.dirname, 'helm/sluice')
  const chart = yamlOf(readFileSync(join(folder, 'Chart.yaml'), 'utf8'))
  for (const values of [{}, ...Object.values(OVERLAYS), ...CHOICES.map(([each]) => each)]) {
    // All in one go: it is the start of the program that takes time.
    const names = readdirSync(join(folder, 'templates'))
    const texts = names.map((name) => readFileSync(join(folder, 'templates', name), 'utf8'))
    const byGo = renderedByGo(texts.join(''), chartData(merged(defaultValues(), values), chart))
    assert.equal(names.map((name) => renderChart(values, name)).join(''), byGo, JSON.stringify(values))
  }
})

test('the chart is of this version, and its schema has exactly its values', () => {
  const chart = readFileSync(join(import.meta.dirname, 'helm/sluice/Chart.yaml'), 'utf8')
  assert.equal(Object(yamlOf(chart)).appVersion, packageJson.version)
  const schema = readFileSync(join(import.meta.dirname, 'helm/sluice/values.schema.json'), 'utf8')
  const { properties } = JSON.parse(schema)
  // Helm itself puts `global` into the values of every chart.
  const names = Object.keys(properties).filter((name) => name !== 'global')
  assert.deepEqual(names.sort(), Object.keys(Object(defaultValues())).sort())
})

test('install.yaml: every mount has its volume, and the folders that the arguments name are mounted', () => {
  const volumes = new Set(podSpec.volumes.map(({ name }) => name))
  const mounts = [container, ...podSpec.initContainers].flatMap(({ volumeMounts }) => volumeMounts)
  for (const { name } of mounts) assert.ok(volumes.has(name), name)
  const paths = container.volumeMounts.map(({ mountPath }) => mountPath)
  assert.ok(paths.includes('/sys/fs/bpf'))
  const cgroupRoot = container.args.find((arg) => arg.startsWith('--cgroup-root='))?.split('=')[1]
  assert.ok(cgroupRoot !== undefined && paths.includes(cgroupRoot))
})

test('install.yaml: the image is of this version, and the Dockerfile says how to build it', () => {
  const image = `sluice:${packageJson.version}`
  for (const each of [container, ...podSpec.initContainers]) assert.equal(each.image, image)
  assert.ok(DOCKERFILE.includes(`-t ${image} `))
})

test('Dockerfile: what it starts is its own command, which can be executed', () => {
  assert.match(DOCKERFILE, /^WORKDIR \/sluice$/m)
  assert.match(DOCKERFILE, /^COPY deploy\/sluice \/usr\/local\/bin\/$/m)
  assert.match(DOCKERFILE, /^ENTRYPOINT \["sluice"\]$/m)
  assert.match(COMMAND, /^#!\/bin\/sh\n/)
  accessSync(COMMAND_FILE, constants.X_OK)
})

/** `COPY A B … TARGET` of a stage, without those from another stage. */
const copies = [...DOCKERFILE.matchAll(/^COPY (?!--from)(.+)$/gm)].map((match) => (match[1] ?? '').split(' '))

test('Dockerfile: each stage begins with the one image that can be chosen', () => {
  const stages = [...DOCKERFILE.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image)
  assert.deepEqual(
    stages,
    ['$', '$'].map((sign) => `${sign}{NODE_IMAGE}`),
  )
  assert.match(DOCKERFILE, /^ARG NODE_IMAGE=node:24-slim$/m)
})

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
    // What the command of the image starts, which is at this place in the image alone.
    const [, script = ''] = /^exec node \/sluice\/(\S+) "\$@"$/m.exec(COMMAND) ?? []
    const probe = execFileSync(process.execPath, [script, '--version'], { cwd: image, encoding: 'utf8' })
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
