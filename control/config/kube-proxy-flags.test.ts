import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { type Commands, runProgram } from '../cli/program.ts'
import { parseConfiguration } from './configuration.ts'
import type { RunOptions } from './options.ts'
import { SLUICE } from './sluice.ts'

const FILE = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
hostnameOverride: of-the-file
clientConnection: {kubeconfig: /of-the-file}
logging: {verbosity: 2, format: json}
clusterCIDR: 10.244.0.0/16
mode: iptables
bindAddress: "::"
iptables: {syncPeriod: 10s, minSyncPeriod: 2s, masqueradeAll: true}
`

const OWN = `
apiVersion: sluice.dev/v1alpha1
kind: SluiceConfiguration
apiServer: https://own:6443
bpfRoot: /sys/fs/bpf/own
cgroupRoot: /c
netnsDir: /n
attach: clsact
socketLoadBalancing: all
scheduler: random
clientAddress: kube-proxy
serviceNodePortRange: 20000-22767
handoverTimeout: 10m
externalInterfaces: [eth*, bond0]
podInterfaces: [veth*]
ignoreInterfaces: [docker0]
mapSizes: {flows4: 1024, services: 64}
`

/** The options that `sluice run` is called with, or what is said instead. */
async function read(line: string, text = FILE): Promise<RunOptions | string> {
  let result: RunOptions | string = ''
  const unused = async () => assert.fail('another command')
  const commands: Commands = {
    ...{ services: unused, backends: unused, flows: unused, probe: unused },
    cleanup: async ({ bpfRoot }) => {
      result = `clean-up of ${bpfRoot}`
    },
    readConfiguration: async (paths) =>
      parseConfiguration(paths.map((path) => ({ path, text: path === '/own' ? OWN : text }))),
    run: async (options) => {
      result = options
    },
  }
  const err = (said: string) => {
    result = said
  }
  const args = ['run', '--source', 'kubernetes', ...line.split(' ').filter((word) => word !== '')]
  await runProgram(args, 'v', commands, { out: () => {}, err })
  return result
}

async function options(line: string, text?: string): Promise<RunOptions> {
  const result = await read(line, text)
  return typeof result === 'string' ? assert.fail(result) : result
}

describe('every flag of kube-proxy is taken', () => {
  const quiet = `--kubeconfig=/k --master=https://m:6443 --hostname-override=n1 --bind-address=0.0.0.0
    --healthz-bind-address=0.0.0.0:1 --metrics-bind-address=127.0.0.1:2 --bind-address-hard-fail=false --healthz-port=10256
    --metrics-port=10249 --show-hidden-metrics-for-version=1.35 --proxy-mode=iptables --iptables-masquerade-bit=14
    --masquerade-all=false --iptables-localhost-nodeports=true --iptables-sync-period=30s --iptables-min-sync-period=1s
    --ipvs-sync-period=30s --ipvs-min-sync-period=1s --detect-local-mode=ClusterCIDR --cluster-cidr=10.244.0.0/16
    --nodeport-addresses=primary --oom-score-adj=-998 --conntrack-tcp-timeout-established=24h
    --conntrack-tcp-timeout-close-wait=1h --conntrack-udp-timeout=0 --conntrack-udp-timeout-stream=0
    --config-sync-period=15m --proxy-port-range=1-2 --v=2 --vmodule=a=1 --logging-format=text --log-flush-frequency=5s
    --boot-id-file=/b --machine-id-file=/m --kube-api-qps=5 --kube-api-burst=10 --profiling=false --feature-gates=
    --kube-api-content-type=application/vnd.kubernetes.protobuf --ipvs-strict-arp=false --conntrack-max-per-core=32768
    --conntrack-min=131072 --conntrack-tcp-be-liberal=false --ipvs-exclude-cidrs= --ipvs-tcp-timeout=0s
    --ipvs-tcpfin-timeout=0s --ipvs-udp-timeout=0s --ipvs-scheduler= --alsologtostderr --logtostderr=true`
  const loud = [
    ...[
      '--feature-gates=A=true',
      '--kube-api-content-type=application/json',
      '--kube-api-qps=50',
      '--kube-api-burst=100',
    ],
    ...['--profiling', '--ipvs-exclude-cidrs=10.0.0.0/8', '--ipvs-strict-arp', '--ipvs-tcp-timeout=1s'],
    ...['--ipvs-tcpfin-timeout=1s', '--ipvs-udp-timeout=1s', '--udp-timeout=1s'],
    ...['--cleanup-ipvs=true', '--cleanup-iptables=true'],
    '--resource-container=/kube-proxy',
  ]
  const words = quiet.split(/\s+/)
  it('those that are usual, or that nobody would notice, without a word', async () => {
    assert.deepEqual((await options(words.join(' '))).warnings, [])
  })
  for (const word of loud) {
    it(`${word}, with one warning`, async () => {
      const { warnings } = await options(word)
      assert.equal(warnings.length, 1)
      assert.ok(
        warnings[0]?.startsWith(`${word.split('=')[0]}`) && warnings[0].includes('it changes nothing: '),
      )
    })
  }
})

test('what cannot be used is told all at once', async () => {
  const said = await read(
    '--conntrack-min=x --oom-score-adj=5000 --ipvs-strict-arp=maybe --iptables-min-sync-period=1h',
  )
  assert.deepEqual(String(said).trim().split(/\n +/), [
    'sluice: --ipvs-strict-arp: got "maybe". It takes true or false.',
    '--oom-score-adj: got "5000". It takes a whole number from -1000 to 1000.',
    '--conntrack-min: got "x". It takes a whole number from 0 on.',
    '--iptables-min-sync-period: got "1h". It takes a duration of at most the syncPeriod, which is 30s.',
  ])
})

test('what the others come to', async () => {
  const rows: [line: string, seen: (options: RunOptions) => unknown, expected: unknown][] = [
    ['--hostname-override N1', (o) => o.nodeName, 'n1'],
    ['--node-name a --hostname-override=', (o) => o.nodeName, 'a'],
    ['--master m:6443', (o) => o.source, { kind: 'kubernetes', kubeconfig: undefined, apiServer: 'm:6443' }],
    ['--healthz-port 5', (o) => o.healthzBindAddress, { address: '0.0.0.0', port: 5 }],
    ['--healthz-port 0', (o) => o.healthzBindAddress, undefined],
    ['--metrics-port 5', (o) => o.metricsBindAddress, { address: '127.0.0.1', port: 5 }],
    ['--bind-address ::', (o) => o.metricsBindAddress, { address: '::1', port: 10_249 }],
    ['--bind-address :: --metrics-bind-address 0.0.0.0:1', (o) => o.metricsBindAddress?.address, '0.0.0.0'],
    ['--iptables-sync-period 10s', (o) => o.pacing, { syncPeriodMs: 10_000, minSyncPeriodMs: undefined }],
    ['--iptables-min-sync-period 1s', (o) => o.pacing, { syncPeriodMs: 30_000, minSyncPeriodMs: 1000 }],
    ['--proxy-mode ipvs --ipvs-sync-period 9s', (o) => o.pacing.syncPeriodMs, 9000],
    ['--proxy-mode nftables', (o) => o.model.nodePortAddresses, 'primary'],
    [
      '--proxy-mode nftables --nodeport-addresses 10.0.0.0/8',
      (o) => o.model.nodePortAddresses,
      ['10.0.0.0/8'],
    ],
    [
      '--conntrack-max-per-core 7 --conntrack-min 9',
      (o) => [o.conntrack.maxPerCore, o.conntrack.min],
      [7, 9],
    ],
    ['--conntrack-tcp-be-liberal', (o) => o.conntrack.tcpBeLiberal, true],
    ['--conntrack-tcp-timeout-established 0', (o) => o.conntrack.tcpEstablished, 0],
    ['--conntrack-tcp-timeout-established 0', (o) => o.timeouts.tcpEstablished, 86_400],
    ['', (o) => [o.conntrack.tcpEstablished, o.conntrack.tcpCloseWait, o.conntrack.udp], [86_400, 3600, 0]],
    ['', (o) => o.oomScoreAdj, undefined],
    ['-v=4', (o) => o.verbosity, 4],
    ['--write-config-to=', (o) => o.writeConfigTo, undefined],
    ['', (o) => o.initOnly, false],
    ['--init-only', (o) => o.initOnly, true],
    ['--config /f --init-only=true', (o) => o.initOnly, true],
    ['--oom-score-adj -5', (o) => o.oomScoreAdj, -5],
  ]
  for (const [line, seen, expected] of rows) assert.deepEqual(seen(await options(line)), expected, line)
  assert.equal(await read('--cleanup=true --bpf-root /sys/fs/bpf/x'), 'clean-up of /sys/fs/bpf/x')
})

test('beside a file some flags count, the others are named, and what is Sluice’s own goes on', async () => {
  const file = await options('--config /f')
  assert.deepEqual(file.warnings, [])
  assert.deepEqual(
    [file.nodeName, file.verbosity, file.loggingFormat, file.proxyMode, file.oomScoreAdj],
    ['of-the-file', 2, 'json', 'iptables', -999],
  )
  assert.deepEqual(file.source, { kind: 'kubernetes', kubeconfig: '/of-the-file', apiServer: undefined })
  assert.deepEqual(file.model.detectLocal, { mode: 'ClusterCIDR', cidrs: { ipv4: '10.244.0.0/16' } })
  assert.deepEqual(file.pacing, { syncPeriodMs: 10_000, minSyncPeriodMs: 2000 })
  assert.deepEqual([file.model.masqueradeAll, file.metricsBindAddress?.address], [true, '::1'])
  assert.deepEqual(file.configFiles, [{ path: '/f', text: FILE }])

  const both = await options(
    '--config /f --hostname-override n1 --master m --v 5 --logging-format text --cluster-cidr 10.0.0.0/8 --proxy-mode bpf ' +
      '--healthz-port 0 --oom-score-adj 3 --attach clsact --client-address kube-proxy',
  )
  assert.deepEqual(both.warnings, [
    'beside --config these flags change nothing, as with kube-proxy: --proxy-mode, --cluster-cidr, --healthz-port, --oom-score-adj',
  ])
  assert.deepEqual([both.nodeName, both.verbosity, both.loggingFormat], ['n1', 5, 'text'])
  assert.deepEqual(both.source, { kind: 'kubernetes', kubeconfig: '/of-the-file', apiServer: 'm' })
  assert.deepEqual([both.proxyMode, both.oomScoreAdj, both.attach], ['iptables', -999, 'clsact'])
  assert.deepEqual(
    [both.model.detectLocal, both.healthzBindAddress],
    [file.model.detectLocal, file.healthzBindAddress],
  )
  assert.equal(both.model.clientAddress, 'kube-proxy')
})

test('a folder of manifests goes before the cluster that the file names', async () => {
  assert.deepEqual((await options('--config /f --source files:/m')).source, { kind: 'files', folder: '/m' })
})

describe('our own configuration', () => {
  it('says what its options say', async () => {
    const own = await options('--config /own')
    const flags = await options(
      '--api-server https://own:6443 --bpf-root /sys/fs/bpf/own --cgroup-root /c --netns-dir /n --attach clsact ' +
        '--socket-load-balancing all --scheduler random --client-address kube-proxy --handover-timeout 10m ' +
        '--service-node-port-range 20000-22767 --external-interfaces eth*,bond0 --pod-interfaces veth* ' +
        '--ignore-interfaces docker0 --map-size flows4=1024 --map-size services=64',
    )
    assert.deepEqual(own, { ...flags, configFiles: own.configFiles })
    const unsaid = Object.keys(SLUICE).filter((name) => !OWN.includes(`\n${name}: `))
    assert.deepEqual(unsaid, [])
  })

  it('goes behind an option that is given', async () => {
    const { bpfRoot, attach, mapSizes, source, model } = await options(
      '--config /own --bpf-root /sys/fs/bpf/x --attach tcx --map-size flows4=2 --master m:1',
    )
    assert.deepEqual([bpfRoot, attach, mapSizes], ['/sys/fs/bpf/x', 'tcx', { flows4: 2 }])
    assert.deepEqual(source, { kind: 'kubernetes', kubeconfig: undefined, apiServer: 'm:1' })
    assert.equal(model.clientAddress, 'kube-proxy')
  })

  it('goes behind a variable of the environment, as behind the option that it stands for', async () => {
    const name = 'SLUICE_BPF_ROOT'
    const before = process.env[name]
    process.env[name] = '/sys/fs/bpf/env'
    try {
      assert.equal((await options('--config /own')).bpfRoot, '/sys/fs/bpf/env')
      assert.equal((await options('--config /own --bpf-root /sys/fs/bpf/x')).bpfRoot, '/sys/fs/bpf/x')
    } finally {
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    }
  })

  it('leaves kube-proxy’s flags in force, which are none of its business', async () => {
    const { warnings, proxyMode, model, pacing } = await options(
      '--config /own --proxy-mode iptables --cluster-cidr 10.244.0.0/16 --iptables-sync-period 9s',
    )
    assert.deepEqual([warnings, proxyMode, pacing.syncPeriodMs], [[], 'iptables', 9000])
    assert.deepEqual(model.detectLocal, { mode: 'ClusterCIDR', cidrs: { ipv4: '10.244.0.0/16' } })
  })

  it('stands beside kube-proxy’s, in a file of its own or as another document', async () => {
    const two = await options('--config /f --config /own')
    const one = await options('--config /f', `${FILE}---\n${OWN}`)
    for (const { nodeName, proxyMode, bpfRoot, attach } of [one, two]) {
      assert.deepEqual(
        [nodeName, proxyMode, bpfRoot, attach],
        ['of-the-file', 'iptables', '/sys/fs/bpf/own', 'clsact'],
      )
    }
  })

  it('says nothing when it is empty', async () => {
    const head = 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfiguration\n'
    const empty = await options('--config /f', head)
    assert.deepEqual(empty, { ...(await options('')), configFiles: empty.configFiles })
  })
})

test('what is wrong in several documents and files is told at once, with its lines', async () => {
  const text = `${FILE}oomScoreAdj: 5000
---
apiVersion: sluice.dev/v1alpha1
kind: SluiceConfiguration
mapSizes: {flows4: 0}
handoverTimeout: soon
attach: glue
colour: red
`
  const said = String(await read('--config /f --config /own', text))
  assert.deepEqual(said.trim().split('\n'), [
    'sluice: --config /f has a field that cannot be used:',
    '  line 11, oomScoreAdj: got 5000. It takes a whole number from -1000 to 1000.',
    '--config /own: there is a SluiceConfiguration already, and it takes one',
    '--config /f has 3 fields that cannot be used:',
    '  line 15, mapSizes: got {"flows4":0}. It takes names of maps with their numbers of entries: {flows4: 65536}.',
    '  line 16, handoverTimeout: got "soon". It takes a duration such as 24h, 1h30m or 90s.',
    '  line 17, attach: got "glue". It takes auto, tcx, clsact.',
  ])
})
