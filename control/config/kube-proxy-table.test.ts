/**
 * Every field and flag of kube-proxy's configuration, written down here once more, and what becomes of each: one that is
 * honoured or mapped changes what the daemon does, one that is warned of is one warning and nothing else, one that is ignored
 * is neither.
 */

import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { type Commands, runProgram } from '../cli/program.ts'
import { yamlText } from '../source/files/yaml.ts'
import { parseConfiguration } from './configuration.ts'
import { type Becomes, fieldsOf } from './fields.ts'
import { API_VERSION, KIND, KUBE_PROXY } from './kube-proxy.ts'
import { OTHER_FLAGS } from './kube-proxy-flags.ts'
import type { RunOptions } from './options.ts'

type Row = readonly [
  field: string,
  flag: string,
  becomes: Becomes,
  /** Another than the usual. */
  value: unknown,
  /** Without which it means nothing, in kube-proxy neither. */
  beside?: Readonly<Record<string, unknown>>,
]

const NONE = ''

const ROWS: readonly Row[] = [
  ['featureGates', '--feature-gates', 'warned', { SomeGate: true }],
  ['clientConnection.kubeconfig', '--kubeconfig', 'honoured', '/k'],
  ['clientConnection.acceptContentTypes', NONE, 'ignored', 'application/json'],
  ['clientConnection.contentType', '--kube-api-content-type', 'warned', 'application/json'],
  ['clientConnection.qps', '--kube-api-qps', 'warned', 50.5],
  ['clientConnection.burst', '--kube-api-burst', 'warned', 100],
  ['logging.format', '--logging-format', 'honoured', 'json'],
  ['logging.flushFrequency', '--log-flush-frequency', 'ignored', '1s'],
  ['logging.verbosity', '--v', 'honoured', 4],
  ['logging.vmodule', '--vmodule', 'ignored', [{ filePattern: 'proxier', verbosity: 4 }]],
  ['logging.options.text.infoBufferSize', NONE, 'ignored', '1Ki'],
  ['logging.options.json.infoBufferSize', NONE, 'ignored', '1Ki'],
  ['hostnameOverride', '--hostname-override', 'honoured', 'other'],
  ['bindAddress', '--bind-address', 'mapped', '::'],
  ['healthzBindAddress', '--healthz-bind-address', 'honoured', '127.0.0.1:1'],
  ['metricsBindAddress', '--metrics-bind-address', 'honoured', '0.0.0.0:2'],
  ['bindAddressHardFail', '--bind-address-hard-fail', 'honoured', true],
  ['enableProfiling', '--profiling', 'warned', true],
  ['showHiddenMetricsForVersion', '--show-hidden-metrics-for-version', 'ignored', '1.35'],
  ['mode', '--proxy-mode', 'mapped', 'iptables'],
  ['iptables.masqueradeBit', '--iptables-masquerade-bit', 'honoured', 15],
  ['iptables.masqueradeAll', '--masquerade-all', 'honoured', true],
  ['iptables.localhostNodePorts', '--iptables-localhost-nodeports', 'honoured', false],
  ['iptables.syncPeriod', '--iptables-sync-period', 'mapped', '10s'],
  ['iptables.minSyncPeriod', '--iptables-min-sync-period', 'mapped', '2s'],
  ['ipvs.syncPeriod', '--ipvs-sync-period', 'mapped', '10s', { mode: 'ipvs' }],
  ['ipvs.minSyncPeriod', '--ipvs-min-sync-period', 'mapped', '2s', { mode: 'ipvs' }],
  ['ipvs.scheduler', '--ipvs-scheduler', 'mapped', 'sh', { mode: 'ipvs' }],
  ['ipvs.excludeCIDRs', '--ipvs-exclude-cidrs', 'warned', ['10.0.0.0/8']],
  ['ipvs.strictARP', '--ipvs-strict-arp', 'warned', true],
  ['ipvs.tcpTimeout', '--ipvs-tcp-timeout', 'warned', '5m'],
  ['ipvs.tcpFinTimeout', '--ipvs-tcpfin-timeout', 'warned', '5m'],
  ['ipvs.udpTimeout', '--ipvs-udp-timeout', 'warned', '5m'],
  ['nftables.masqueradeBit', NONE, 'honoured', 15, { mode: 'nftables' }],
  ['nftables.masqueradeAll', NONE, 'honoured', true, { mode: 'nftables' }],
  ['nftables.syncPeriod', NONE, 'mapped', '10s', { mode: 'nftables' }],
  ['nftables.minSyncPeriod', NONE, 'mapped', '2s', { mode: 'nftables' }],
  ['winkernel.networkName', NONE, 'warned', 'l2bridge'],
  ['winkernel.sourceVip', NONE, 'warned', '10.0.0.1'],
  ['winkernel.enableDSR', NONE, 'warned', true],
  ['winkernel.rootHnsEndpointName', NONE, 'warned', 'cbr0'],
  ['winkernel.forwardHealthCheckVip', NONE, 'warned', true],
  ['windowsRunAsService', NONE, 'warned', true],
  ['detectLocalMode', '--detect-local-mode', 'honoured', 'NodeCIDR'],
  [
    'detectLocal.bridgeInterface',
    '--pod-bridge-interface',
    'honoured',
    'cni1',
    { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'cni0' } },
  ],
  [
    'detectLocal.interfaceNamePrefix',
    '--pod-interface-name-prefix',
    'honoured',
    'cali',
    { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'veth' } },
  ],
  ['clusterCIDR', '--cluster-cidr', 'honoured', '10.244.0.0/16,fd00:10:244::/56'],
  ['nodePortAddresses', '--nodeport-addresses', 'honoured', ['primary']],
  ['oomScoreAdj', '--oom-score-adj', 'honoured', -998],
  ['conntrack.maxPerCore', '--conntrack-max-per-core', 'honoured', 65_536],
  ['conntrack.min', '--conntrack-min', 'honoured', 262_144],
  ['conntrack.tcpEstablishedTimeout', '--conntrack-tcp-timeout-established', 'honoured', '0s'],
  ['conntrack.tcpCloseWaitTimeout', '--conntrack-tcp-timeout-close-wait', 'honoured', '2h'],
  ['conntrack.tcpBeLiberal', '--conntrack-tcp-be-liberal', 'honoured', true],
  ['conntrack.udpTimeout', '--conntrack-udp-timeout', 'honoured', '10s'],
  ['conntrack.udpStreamTimeout', '--conntrack-udp-timeout-stream', 'honoured', '1m'],
  ['configSyncPeriod', '--config-sync-period', 'ignored', '1m'],
  ['portRange', '--proxy-port-range', 'ignored', '1-2'],
]

/** Without a field; `honoured` are options that other tests try. */
const FLAGS_ALONE: Readonly<Record<string, 'honoured' | 'warned' | 'ignored'>> = {
  ...{ '--config': 'honoured', '--write-config-to': 'honoured', '--cleanup': 'honoured' },
  ...{ '--init-only': 'honoured', '--master': 'honoured' },
  ...{ '--healthz-port': 'honoured', '--metrics-port': 'honoured' },
  ...{ '--boot-id-file': 'ignored', '--machine-id-file': 'ignored' },
  ...{ '--log-dir': 'ignored', '--log-file': 'ignored', '--log-file-max-size': 'ignored' },
  ...{ '--log-text-info-buffer-size': 'ignored', '--log-text-split-stream': 'ignored' },
  ...{ '--log-json-info-buffer-size': 'ignored', '--log-json-split-stream': 'ignored' },
  ...{ '--logtostderr': 'ignored', '--alsologtostderr': 'ignored', '--stderrthreshold': 'ignored' },
  ...{ '--one-output': 'ignored', '--add-dir-header': 'ignored', '--log-backtrace-at': 'ignored' },
  ...{ '--skip-headers': 'ignored', '--skip-log-headers': 'ignored' },
  ...{ '--udp-timeout': 'warned', '--resource-container': 'warned' },
  ...{ '--cleanup-ipvs': 'warned', '--cleanup-iptables': 'warned' },
}

/** The options that these arguments come to, with this file for `--config`; or what is said instead. */
async function optionsOf(args: readonly string[], text = ''): Promise<RunOptions | string> {
  let seen: RunOptions | string = ''
  const unused = async () => assert.fail('another command')
  const commands: Commands = {
    ...{ services: unused, backends: unused, flows: unused, probe: unused },
    cleanup: async () => undefined,
    readConfiguration: async (paths) => parseConfiguration(paths.map((path) => ({ path, text }))),
    run: async (options) => {
      seen = options
    },
  }
  const err = (said: string) => {
    seen = said
  }
  const all = ['run', '--source', 'kubernetes', ...args]
  await runProgram(all, 'v', commands, { out: () => {}, err })
  return seen
}

type Fields = Readonly<Record<string, unknown>>

/** Set at the end of the path; what is beside it stays. */
function withField(fields: Fields, [name = '', ...rest]: readonly string[], value: unknown): Fields {
  const inner = fields[name]
  const section = typeof inner === 'object' && inner !== null ? { ...inner } : {}
  return { ...fields, [name]: rest.length === 0 ? value : withField(section, rest, value) }
}

/** What a file with these fields has the daemon do, and what it is told. */
async function effectOf(fields: Fields) {
  const text = yamlText({ apiVersion: API_VERSION, kind: KIND, ...fields })
  const options = await optionsOf(['--config', '/f'], text)
  assert.ok(typeof options === 'object', String(options))
  const { warnings, kubeProxy: _values, configFiles: _files, ...does } = options
  return { told: warnings.length, effect: JSON.stringify(does), warnings: warnings.join('\n') }
}

test('they are all the fields there are, each with its flag', () => {
  const ours = [...fieldsOf(KUBE_PROXY)].map(([path, { flag, becomes }]) => [
    path.join('.'),
    flag ?? NONE,
    becomes,
  ])
  assert.deepEqual(
    ours,
    ROWS.map((row) => row.slice(0, 3)),
  )
})

describe('what becomes of each', () => {
  for (const [field, , becomes, value, beside = {}] of ROWS) {
    it(`${field}: ${becomes}`, async () => {
      const without = await effectOf(beside)
      const set = await effectOf(withField(beside, field.split('.'), value))
      const isTold = set.told > without.told
      // What is mapped to nothing that there is yet is in the words of the warning that its mode has anyway.
      const isDone = set.effect !== without.effect || (!isTold && set.warnings !== without.warnings)
      assert.deepEqual(
        { isDone, told: set.told - without.told },
        { isDone: becomes === 'honoured' || becomes === 'mapped', told: becomes === 'warned' ? 1 : 0 },
        set.warnings,
      )
      if (becomes === 'warned') assert.ok(set.warnings.startsWith(`${field} `), set.warnings)
      if (becomes === 'warned') assert.match(set.warnings, /: it changes nothing: \S/)
    })
  }
})

test('every flag is taken, and those that have no field are told, or not, as the table says', async () => {
  const others = Object.entries(OTHER_FLAGS).map(([flag, { told }]) => [
    flag,
    told === undefined ? 'ignored' : 'warned',
  ])
  assert.deepEqual(
    Object.fromEntries(others),
    Object.fromEntries(Object.entries(FLAGS_ALONE).filter(([, becomes]) => becomes !== 'honoured')),
  )
  const flags = [...ROWS.map(([, flag]) => flag), ...Object.keys(FLAGS_ALONE)].filter((flag) => flag !== NONE)
  for (const flag of flags) assert.doesNotMatch(String(await optionsOf([flag, '1'])), /unknown option/, flag)
})
