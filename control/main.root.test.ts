/** The program as people run it: real processes, in a network namespace and a cgroup of their own. */

import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { mountsOfType } from 'libbpf-ts'
import { CAPABILITIES } from './cli/requirements.ts'
import { pinPath } from './dataplane/bpf/pins.ts'

const MAIN = join(import.meta.dirname, 'main.ts')
const PREFIX = `slt${process.pid}`
const BPF_ROOT = `/sys/fs/bpf/${PREFIX}`
const CGROUP = join(mountsOfType('cgroup2')[0]?.path ?? '', PREFIX)
const LIMIT_MS = 20_000
const SIZES = {
  ...{ services: 256, service_stats: 256, lists: 512, cursors: 512, backends4: 512, backend_slots4: 1024 },
  ...{ affinity4: 1024, flows4: 1024, embryonic4: 1024, outbound4: 1024, fragments4: 1024 },
}

const NODE = `
apiVersion: v1
kind: Node
metadata: { name: n1 }
status: { addresses: [{ type: InternalIP, address: 192.168.10.11 }] }
`
const service = (name: string, clusterIP: string, nodePort?: number) => `
apiVersion: v1
kind: Service
metadata: { namespace: test, name: ${name} }
spec:
  type: ${nodePort === undefined ? 'ClusterIP' : 'NodePort'}
  clusterIP: ${clusterIP}
  ports: [{ name: http, port: 80${nodePort === undefined ? '' : `, nodePort: ${nodePort}`} }]
`
const slice = (name: string, addresses: readonly string[]) => `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { namespace: test, name: ${name}-1, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints: [${addresses.map((address) => `{ addresses: [${address}] }`).join(', ')}]
`

const folder = mkdtempSync(join(tmpdir(), `${PREFIX}-`))
const daemons: ChildProcess[] = []

/** As an editor saves: another file, renamed over the old one. */
function save(name: string, ...documents: string[]): void {
  writeFileSync(join(folder, `.${name}`), documents.join('---'))
  renameSync(join(folder, `.${name}`), join(folder, name))
}

const inNode = (...argv: string[]): [string, string[]] => ['nsenter', [`--net=/run/netns/${PREFIX}`, ...argv]]
/** With the privileges that it says it needs, and not one more. */
const PRIVILEGES = CAPABILITIES.map((name) => `+${name.toLowerCase()}`).join()
const program = (...args: string[]) =>
  inNode('setpriv', `--bounding-set=-all,${PRIVILEGES}`, '--inh-caps=-all', process.execPath, MAIN, ...args)

/** A command of the program, run to its end. */
function sluice(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(...program(...args), { encoding: 'utf8', timeout: LIMIT_MS })
  return { code: status, stdout, stderr }
}

const MAP_SIZES = Object.entries(SIZES).flatMap(([name, entries]) => ['--map-size', `${name}=${entries}`])
const RUN = [
  'run',
  ...[
    '--source',
    `files:${folder}`,
    '--node-name',
    'n1',
    '--bpf-root',
    BPF_ROOT,
    '--cgroup-root',
    CGROUP,
    '-v',
    '3',
  ],
  ...MAP_SIZES,
]

/** The daemon, and what it has logged. */
class Daemon {
  readonly child: ChildProcess
  log = ''

  constructor() {
    const [command, args] = program(...RUN)
    this.child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    daemons.push(this.child)
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.log += text
    })
  }

  /** Resolves when the log has a line that fits. */
  async says(pattern: RegExp): Promise<void> {
    await until(
      () => {
        assert.equal(this.child.exitCode, null, this.log)
        return pattern.test(this.log)
      },
      () => `no line ${pattern} in\n${this.log}`,
    )
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    const ended = once(this.child, 'exit')
    this.child.kill(signal)
    await ended
    return this.child.exitCode
  }
}

async function until(condition: () => boolean, complaint: () => string): Promise<void> {
  const end = performance.now() + LIMIT_MS
  while (!condition()) {
    if (performance.now() > end) assert.fail(complaint())
    await delay(20)
  }
}

/** What the daemon answers, asked on its node. */
function get(url: string): string {
  const script = `process.stdout.write(await (await fetch('${url}')).text())`
  const [command, args] = inNode(process.execPath, '--input-type=module', '-e', script)
  return execFileSync(command, args, { encoding: 'utf8', timeout: LIMIT_MS })
}

/** `test/web → its backends`, as `sluice services` tells. */
function backendsByService(): Record<string, string[]> {
  const { services } = JSON.parse(sluice('services', '--bpf-root', BPF_ROOT, '-o', 'json').stdout)
  return Object.fromEntries(
    services.map(
      ({ namespace, name, cluster }: { namespace: string; name: string; cluster: { address: string }[] }) => [
        `${namespace}/${name}`,
        cluster.map(({ address }) => address),
      ],
    ),
  )
}

before(() => {
  const script = `
    netns add ${PREFIX}
    -n ${PREFIX} link set lo up
    -n ${PREFIX} link add up0 type veth peer name up1
    -n ${PREFIX} addr add 192.168.10.11/24 dev up0
    -n ${PREFIX} link set up0 up
    -n ${PREFIX} link set up1 up`
  for (const line of script.trim().split('\n')) execFileSync('ip', line.trim().split(' '))
  mkdirSync(CGROUP)
  save('node.yaml', NODE)
  save('web.yaml', service('web', '10.96.0.10', 30080), slice('web', ['10.244.1.2', '10.244.2.2']))
  save('api.yaml', service('api', '10.96.0.11'), slice('api', ['10.244.1.3']))
})

after(async () => {
  for (const child of daemons) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  sluice('cleanup', '--bpf-root', BPF_ROOT)
  execFileSync('ip', ['netns', 'delete', PREFIX])
  rmdirSync(CGROUP)
  rmSync(folder, { recursive: true })
})

describe('a start that cannot be', () => {
  const cases: [what: string, args: string[], stderr: RegExp][] = [
    [
      'of a folder that is not there',
      ['--source', 'files:/nowhere'],
      /files:\/nowhere.*give a folder of YAML manifests\n$/,
    ],
    [
      'with a size for a map that does not exist',
      ['--map-size', 'flow=5'],
      /--map-size: no map is called flow; there are: .*flows4/,
    ],
    [
      'with pins outside a BPF file system',
      ['--bpf-root', '/tmp/pins'],
      /\/tmp\/pins is not in a BPF file system/,
    ],
    [
      'at a cgroup that is none',
      ['--cgroup-root', '/tmp'],
      /--cgroup-root \/tmp is no folder of a cgroup v2 mount/,
    ],
  ]
  for (const [what, args, stderr] of cases) {
    it(`${what} says so in one line and leaves nothing behind`, () => {
      const result = sluice(...RUN, ...args)
      assert.equal(result.code, 2)
      const said = result.stderr.split('\n').filter((line) => line.startsWith('sluice: '))
      assert.equal(said.length, 1, result.stderr)
      assert.match(result.stderr, stderr)
      assert.equal(existsSync(BPF_ROOT), false)
    })
  }
})

describe('the life of a daemon', () => {
  it('has only what takes every privilege done before, if asked', () => {
    const { code, stderr } = sluice(...RUN, '--init-only')
    assert.equal(code, 0, stderr)
    assert.match(stderr, / done, and no more: --init-only\n$/)
    const [command, argv] = inNode('sysctl', '-n', 'net.netfilter.nf_conntrack_tcp_timeout_close_wait')
    assert.equal(execFileSync(command, argv, { encoding: 'utf8' }), '3600\n')
    assert.equal(existsSync(BPF_ROOT), false)
  })

  it('brings the manifests into the kernel, and says when it is ready', async () => {
    const daemon = new Daemon()
    await daemon.says(/INFO {2}ready: 2 services, 3 backends in the kernel/)
    assert.match(daemon.log, /device up0 is external: has the node's InternalIP 192\.168\.10\.11/)
    assert.match(daemon.log, /nothing to adopt/)
    assert.deepEqual(backendsByService(), {
      'test/api': ['10.244.1.3'],
      'test/web': ['10.244.1.2', '10.244.2.2'],
    })
    const { stdout } = sluice('services', '--bpf-root', BPF_ROOT, '--service', 'test/web')
    assert.match(stdout, /^test\/web:http +TCP +10\.96\.0\.10:80 +ClusterIP /m)
    assert.match(stdout, /^ +\*:30080 +NodePort /m)
  })

  it('says at its ports how it is', () => {
    const healthz = JSON.parse(get('http://192.168.10.11:10256/healthz'))
    assert.deepEqual([healthz.healthy, healthz.nodeEligible], [true, true])
    assert.equal(JSON.parse(get('http://127.0.0.1:10256/readyz')).healthy, true)
    assert.equal(get('http://127.0.0.1:10249/proxyMode'), 'bpf')
    const metrics = get('http://127.0.0.1:10249/metrics').split('\n')
    for (const line of [
      'sluice_services 2',
      'sluice_backends{ip_family="IPv4"} 3',
      'sluice_attached_devices 2',
      'sluice_dropped_packets_total{reason="flows_full"} 0',
      'kubeproxy_proxy_healthz_total{code="200"} 1',
      'kubeproxy_sync_proxy_rules_service_changes_total 2',
    ]) {
      assert.ok(metrics.includes(line), `${line} is not in\n${metrics.join('\n')}`)
    }
  })

  it('keeps a second one out, which names the first', () => {
    const { code, stderr } = sluice(...RUN)
    assert.equal(code, 2)
    assert.match(
      stderr,
      new RegExp(`^sluice: another sluice daemon runs on this node: process ${daemons.at(-1)?.pid} `, 'm'),
    )
  })

  it('keeps a clean-up away', () => {
    const { code, stderr } = sluice('cleanup', '--bpf-root', BPF_ROOT)
    assert.equal(code, 2)
    assert.match(stderr, /^sluice: another sluice daemon runs on this node/)
    assert.equal(existsSync(BPF_ROOT), true)
  })

  it('follows an edit, with one line for it', async () => {
    await afterKill(async (daemon) => {
      save('api.yaml', service('api', '10.96.0.11'), slice('api', ['10.244.1.3', '10.244.1.4']))
      await daemon.says(/DEBUG synced services="test\/api \+10\.244\.1\.4:\d+" /)
      assert.deepEqual(backendsByService()['test/api'], ['10.244.1.3', '10.244.1.4'])
    })
  })

  it('names what it cannot use, serves the rest, and tells when it is mended', async () => {
    await afterKill(async (daemon) => {
      save('bad.yaml', service('bad', '10.96.0.999'))
      await daemon.says(/WARN {2}Service test\/bad, spec\.clusterIP/)
      save('bad.yaml', service('bad', '10.96.0.12'))
      await daemon.says(/INFO {2}no longer so: Service test\/bad/)
      await until(
        () => 'test/bad' in backendsByService(),
        () => 'the mended service is not there',
      )
      rmSync(join(folder, 'bad.yaml'))
      await until(
        () => !('test/bad' in backendsByService()),
        () => 'the removed service is still there',
      )
    })
  })

  it('ends at SIGTERM in order, and leaves everything in the kernel', async () => {
    await afterKill(async (daemon) => {
      const before = backendsByService()
      assert.equal(await daemon.end('SIGTERM'), 0)
      assert.match(daemon.log, /stopped: what is in the kernel stays there, and traffic flows on\n$/)
      assert.deepEqual(backendsByService(), before)
      assert.match(sluice('probe', '--bpf-root', BPF_ROOT).stdout, /^up0 .* sluice +sluice$/m)
    })
  })

  it('refuses to start over maps of another size, and names the difference', () => {
    const { code, stderr } = sluice(...RUN, '--map-size', 'flows4=2048')
    assert.equal(code, 2)
    assert.match(stderr, /flows4 is of another make: maxEntries is 1024, wanted 2048\. Start with/)
  })
})

/** Ends the daemon as a crash would, starts another one, which finds all as it was, and goes on with that. */
async function afterKill(act: (daemon: Daemon) => Promise<void>): Promise<void> {
  for (const child of daemons) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }
  const daemon = new Daemon()
  await daemon.says(/INFO {2}ready: 2 services/)
  assert.match(daemon.log, /adopted what an earlier daemon left services=2 backends=\d/)
  assert.match(daemon.log, /synced all services written=0 deleted=0/)
  await act(daemon)
}

describe('clean-up', () => {
  it('removes every trace and names it, also after a crash', async () => {
    await afterKill((daemon) => daemon.end('SIGKILL').then(() => undefined))
    const { code, stdout } = sluice('cleanup', '--bpf-root', BPF_ROOT)
    assert.equal(code, 0)
    for (const trace of [
      'tcx ingress link of device',
      'cgroup connect4 link',
      `map ${pinPath(BPF_ROOT, 'flows4')}`,
      'nft table inet sluice',
    ]) {
      assert.ok(stdout.includes(`removed ${trace}`), stdout)
    }
    assert.equal(existsSync(BPF_ROOT), false)
    assert.equal(readdirSync('/sys/fs/bpf').includes(PREFIX), false)
    assert.match(sluice('probe', '--bpf-root', BPF_ROOT).stdout, /^up0 .* - +-$/m)
    const rules = execFileSync(...inNode('nft', 'list', 'ruleset'), { encoding: 'utf8' })
    assert.doesNotMatch(rules, /sluice/i)
  })

  it('says so when there is nothing', () => {
    assert.deepEqual(sluice('cleanup', '--bpf-root', BPF_ROOT), {
      code: 0,
      stdout: 'nothing to remove\n',
      stderr: '',
    })
  })

  it('leaves the other commands nothing to show, which they say', () => {
    for (const command of ['services', 'backends', 'flows']) {
      const { code, stderr } = sluice(command, '--bpf-root', BPF_ROOT)
      assert.equal(code, 2)
      assert.match(stderr, /^sluice: nothing is pinned under .*: start `sluice run`/)
    }
  })
})

it('mounts what a node lacks, and takes its own mount away again', () => {
  // A mount namespace of its own: neither file system is there, and what is mounted ends with it.
  const script = `
    umount --all --types bpf,cgroup2
    "$0" "$1" run --source files:${folder} --node-name n1 --bpf-root ${BPF_ROOT} ${MAP_SIZES.join(' ')} 2>&1 &
    daemon=$!
    until grep -q sluice/cgroup2 /proc/mounts && [ -e ${BPF_ROOT}/links/cgroup-connect4 ]; do
      kill -0 $daemon || exit 1
      sleep 0.05
    done
    kill $daemon
    wait $daemon
    "$0" "$1" cleanup --bpf-root ${BPF_ROOT}
    cat /proc/mounts`
  const { stdout, stderr } = spawnSync(
    ...inNode('unshare', '--mount', 'sh', '-c', script, process.execPath, MAIN),
    { encoding: 'utf8', timeout: LIMIT_MS },
  )
  assert.match(stdout, /mounted a BPF file system at \/sys\/fs\/bpf$/m, stderr)
  assert.match(stdout, /mounted the cgroup v2 hierarchy at \/run\/sluice\/cgroup2$/m)
  assert.match(stdout, /^removed cgroup v2 mount \/run\/sluice\/cgroup2$/m)
  assert.doesNotMatch(stdout, /^cgroup2 /m)
})

describe('without root', () => {
  // It may read every file: the clone may stand in a folder that is root's alone.
  const readFiles = '-all,+dac_read_search'
  const nobody = ['--reuid=65534', '--clear-groups', `--inh-caps=${readFiles}`, `--ambient-caps=${readFiles}`]
  const unprivileged = (...args: string[]) =>
    spawnSync('setpriv', [...nobody, process.execPath, MAIN, ...args], { encoding: 'utf8' })
  for (const args of [['run', '--source', 'files:/tmp'], ['cleanup']]) {
    it(`${args[0]} says which capabilities are missing`, () => {
      const { status, stderr } = unprivileged(...args)
      assert.equal(status, 2)
      assert.equal(
        stderr,
        'sluice: this needs CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON: run it as root, or give the process these capabilities\n',
      )
    })
  }
  it('probe shows what it can, and that run would not start', () => {
    const { status, stdout } = unprivileged('probe', '-o', 'json')
    assert.equal(status, 2)
    assert.equal(JSON.parse(stdout).dataplane, null)
  })
})
