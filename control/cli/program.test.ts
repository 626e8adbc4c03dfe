import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { defaultValues } from '../config/kube-proxy.ts'
import { type Commands, EXIT_OK, EXIT_USAGE, runProgram } from './program.ts'

/** What a command line does: the command and its options, and what is printed. */
async function read(...args: string[]) {
  const seen: { code: number; called: unknown[]; out: string; err: string } = {
    code: 0,
    called: [],
    out: '',
    err: '',
  }
  const record = (name: string) => async (options: unknown) => {
    seen.called.push(name, JSON.parse(JSON.stringify(options)))
  }
  const commands: Commands = {
    run: record('run'),
    services: record('services'),
    backends: record('backends'),
    flows: record('flows'),
    probe: record('probe'),
    cleanup: record('cleanup'),
    readConfiguration: () => assert.fail('there is no --config'),
  }
  const terminal = {
    out: (text: string) => {
      seen.out += text
    },
    err: (text: string) => {
      seen.err += text
    },
  }
  seen.code = await runProgram(args, 'sluice 1.2.3', commands, terminal)
  return seen
}

/** What `probe` makes of the options that nobody gave, and `run` too. */
const OF_PROBE = {
  nodePortRange: { first: 30_000, last: 32_767 },
  devicePatterns: { externalInterfaces: [], podInterfaces: [], ignoreInterfaces: [] },
}

/** What `run` makes of the options that nobody gave. */
const TRAFFIC = {
  ...OF_PROBE,
  model: {
    detectLocal: { mode: 'devices' },
    masqueradeAll: false,
    clientAddress: 'preserve',
    nodePortAddresses: [],
    localhostNodePorts: true,
  },
  masqueradeBit: 14,
  timeouts: { tcpEstablished: 86400, tcpCloseWait: 3600, udp: 30, udpStream: 180, handover: 86400 },
  conntrack: {
    maxPerCore: 32_768,
    min: 131_072,
    tcpBeLiberal: false,
    tcpEstablished: 86400,
    tcpCloseWait: 3600,
    udp: 0,
    udpStream: 0,
  },
  healthzBindAddress: { address: '0.0.0.0', port: 10_256 },
  metricsBindAddress: { address: '127.0.0.1', port: 10_249 },
  bindAddressHardFail: false,
  proxyMode: 'auto',
  warnings: [],
  pacing: { syncPeriodMs: 30_000 },
  kubeProxy: defaultValues(),
  configFiles: [],
  initOnly: false,
}

describe('commands and their options', () => {
  const cases: [line: string, called: unknown[]][] = [
    [
      'run --source files:/etc/sluice --node-name N1',
      [
        'run',
        {
          source: { kind: 'files', folder: '/etc/sluice' },
          nodeName: 'n1',
          bpfRoot: '/sys/fs/bpf/sluice',
          attach: 'auto',
          socketLoadBalancing: 'host',
          netnsDir: '/run/netns',
          mapSizes: {},
          ...TRAFFIC,
          verbosity: 0,
          loggingFormat: 'text',
        },
      ],
    ],
    [
      'run --source files:a --node-name n1 --bpf-root /sys/fs/bpf/x/ --cgroup-root /c --attach clsact --socket-load-balancing all --netns-dir /n/ --map-size flows4=16 --map-size lists=8 --map-size flows4=32 -v 3 --logging-format json',
      [
        'run',
        {
          source: { kind: 'files', folder: 'a' },
          nodeName: 'n1',
          bpfRoot: '/sys/fs/bpf/x',
          cgroupRoot: '/c',
          attach: 'clsact',
          socketLoadBalancing: 'all',
          netnsDir: '/n',
          mapSizes: { flows4: 32, lists: 8 },
          ...TRAFFIC,
          verbosity: 3,
          loggingFormat: 'json',
        },
      ],
    ],
    [
      'run --kubeconfig /k --api-server [2001:db8::1]:6443 --node-name n1',
      [
        'run',
        {
          source: { kind: 'kubernetes', kubeconfig: '/k', apiServer: '[2001:db8::1]:6443' },
          nodeName: 'n1',
          bpfRoot: '/sys/fs/bpf/sluice',
          attach: 'auto',
          socketLoadBalancing: 'host',
          netnsDir: '/run/netns',
          mapSizes: {},
          ...TRAFFIC,
          verbosity: 0,
          loggingFormat: 'text',
        },
      ],
    ],
    [
      'probe --source kubernetes --node-name n1',
      [
        'probe',
        {
          ...OF_PROBE,
          source: { kind: 'kubernetes' },
          nodeName: 'n1',
          bpfRoot: '/sys/fs/bpf/sluice',
          output: 'table',
        },
      ],
    ],
    ['services', ['services', { bpfRoot: '/sys/fs/bpf/sluice', output: 'table' }]],
    [
      'services --service default/web --protocol udp --family IPv6 -o json --bpf-root /x',
      [
        'services',
        { bpfRoot: '/x', output: 'json', service: 'default/web', protocol: 'UDP', family: 'ipv6' },
      ],
    ],
    [
      'backends --state gone',
      ['backends', { bpfRoot: '/sys/fs/bpf/sluice', output: 'table', state: 'gone' }],
    ],
    [
      'flows --client FD00:0::1 --state closing --family 6',
      [
        'flows',
        {
          bpfRoot: '/sys/fs/bpf/sluice',
          output: 'table',
          state: 'closing',
          client: 'fd00::1',
          family: 'ipv6',
        },
      ],
    ],
    [
      'probe --node-name n1',
      ['probe', { ...OF_PROBE, bpfRoot: '/sys/fs/bpf/sluice', output: 'table', nodeName: 'n1' }],
    ],
    [
      'probe --node-name n1 --service-node-port-range 20000-20100 --external-interfaces eth*,bond0 --external-interfaces wg0 --pod-interfaces v* --ignore-interfaces x',
      [
        'probe',
        {
          nodePortRange: { first: 20_000, last: 20_100 },
          devicePatterns: {
            externalInterfaces: ['eth*', 'bond0', 'wg0'],
            podInterfaces: ['v*'],
            ignoreInterfaces: ['x'],
          },
          bpfRoot: '/sys/fs/bpf/sluice',
          output: 'table',
          nodeName: 'n1',
        },
      ],
    ],
    ['cleanup --bpf-root /x', ['cleanup', { bpfRoot: '/x', drain: false, kubeProxy: false }]],
    ['cleanup --drain', ['cleanup', { bpfRoot: '/sys/fs/bpf/sluice', drain: true, kubeProxy: false }]],
    ['cleanup --kube-proxy', ['cleanup', { bpfRoot: '/sys/fs/bpf/sluice', drain: false, kubeProxy: true }]],
  ]
  for (const [line, called] of cases) {
    it(line, async () => {
      const seen = await read(...line.split(' '))
      assert.deepEqual(seen, { code: EXIT_OK, called, out: '', err: '' })
    })
  }
})

describe('the words of a flag may have underscores between them, as those of kube-proxy', () => {
  it('with the value after a space, after an equals sign, or without one', async () => {
    const spelled = await read(
      ...['run', '--source', 'files:a_b', '--cluster_cidr', '10.0.0.0/8', '--node-name', 'n1'],
      ...['--metrics_bind_address=127.0.0.1:9', '--masquerade_all', '--map_size=node_addresses4=64'],
    )
    const usual = await read(
      ...['run', '--source', 'files:a_b', '--cluster-cidr', '10.0.0.0/8', '--node-name', 'n1'],
      ...['--metrics-bind-address=127.0.0.1:9', '--masquerade-all', '--map-size=node_addresses4=64'],
    )
    assert.equal(usual.code, EXIT_OK, usual.err)
    assert.deepEqual(spelled, usual)
    assert.match(JSON.stringify(usual.called), /"node_addresses4":64/)
  })

  it('flags of kube-proxy that are no options of ours, too', async () => {
    const seen = await read('run', '--source', 'files:a', '--kube_api_qps=7')
    assert.equal(seen.code, EXIT_OK, seen.err)
    assert.match(JSON.stringify(seen.called), /--kube-api-qps/)
  })
})

describe('what makes no sense is told in one line, with what would', () => {
  const cases: [line: string, err: string][] = [
    [
      'run',
      'sluice: --source is missing: it takes files:DIR, a folder of YAML manifests, or kubernetes, the cluster.\n',
    ],
    [
      'run --source files:a --api-server 10.0.0.1',
      'sluice: --api-server goes with --source kubernetes, not with files:a.\n',
    ],
    [
      'run --source /etc',
      "sluice: option '--source <KIND>' argument '/etc' is invalid. It takes files:DIR, a folder of YAML manifests, or kubernetes, the cluster.\n",
    ],
    [
      'run --source files:a --map-size flows4',
      "sluice: option '--map-size <NAME=N>' argument 'flows4' is invalid. It takes NAME=N: a map and its number of entries, such as flows4=65536.\n",
    ],
    [
      'run --source files:a --map-size flows4=0',
      "sluice: option '--map-size <NAME=N>' argument 'flows4=0' is invalid. It takes NAME=N: a map and its number of entries, such as flows4=65536.\n",
    ],
    [
      'run --source files:a --node-name a_b',
      'sluice: option \'--node-name <NAME>\' argument \'a_b\' is invalid. It takes the name of a Node object: letters, digits, "-" and ".".\n',
    ],
    [
      'run --source files:a -v loud',
      "sluice: option '-v, --v <N>' argument 'loud' is invalid. It takes a number: 0 to 2 info, 3 debug, 5 trace.\n",
    ],
    [
      'flows -o yaml',
      "sluice: option '-o, --output <FORMAT>' argument 'yaml' is invalid. Allowed choices are table, json.\n",
    ],
    [
      'services --protocol icmp',
      "sluice: option '--protocol <PROTOCOL>' argument 'icmp' is invalid. It takes TCP, UDP, SCTP.\n",
    ],
    [
      'backends --family 5',
      "sluice: option '--family <FAMILY>' argument '5' is invalid. It takes ipv4, ipv6.\n",
    ],
    [
      'flows --client web',
      "sluice: option '--client <ADDRESS>' argument 'web' is invalid. It takes an IP address.\n",
    ],
    [
      'cleanup --bpf-root pins',
      "sluice: option '--bpf-root <DIR>' argument 'pins' is invalid. It takes an absolute path.\n",
    ],
    ['servces', "sluice: unknown command 'servces'\n(Did you mean services?)\n"],
    ['quux', "sluice: unknown command 'quux'\n(sluice --help lists the commands)\n"],
    ['run --nodename n1', "sluice: unknown option '--nodename'\n(Did you mean --node-name?)\n"],
  ]
  for (const [line, err] of cases) {
    it(line, async () => {
      assert.deepEqual(await read(...line.split(' ')), { code: EXIT_USAGE, called: [], out: '', err })
    })
  }
})

describe('help', () => {
  it('is what `sluice` alone prints, and names every command and what others call it', async () => {
    const { code, out } = await read()
    assert.equal(code, EXIT_OK)
    for (const word of [
      'run',
      'services',
      'backends',
      'flows',
      'probe',
      'cleanup',
      'ipvsadm',
      'cilium-dbg',
      'kube-proxy',
    ]) {
      assert.match(out, new RegExp(`\\b${word}\\b`))
    }
    assert.equal((await read('help')).out, out)
  })
  for (const command of ['run', 'services', 'backends', 'flows', 'probe', 'cleanup']) {
    it(`of ${command} has an example and says where the pins are`, async () => {
      const { code, out } = await read('help', command)
      assert.equal(code, EXIT_OK)
      assert.match(out, new RegExp(`Example:\n {2}sluice ${command}`))
      assert.match(out, /--bpf-root <DIR>/)
      assert.match(out, /SLUICE_BPF_ROOT/)
    })
  }
  it('has a version', async () => {
    assert.equal((await read('--version')).out, 'sluice 1.2.3\n')
  })
})

/** Runs with an environment variable set, and puts it back. */
async function withEnv(name: string, value: string, act: () => Promise<void>): Promise<void> {
  const before = process.env[name]
  process.env[name] = value
  try {
    await act()
  } finally {
    if (before === undefined) delete process.env[name]
    else process.env[name] = before
  }
}

it('SLUICE_BPF_ROOT is the folder of the pins unless the option says otherwise', async () => {
  await withEnv('SLUICE_BPF_ROOT', '/from/env', async () => {
    assert.deepEqual((await read('cleanup')).called, [
      'cleanup',
      { bpfRoot: '/from/env', drain: false, kubeProxy: false },
    ])
    assert.deepEqual((await read('cleanup', '--bpf-root', '/x')).called, [
      'cleanup',
      { bpfRoot: '/x', drain: false, kubeProxy: false },
    ])
  })
})

it('in a pod the cluster is the source unless the option says otherwise', async () => {
  await withEnv('KUBERNETES_SERVICE_HOST', '10.96.0.1', async () => {
    const source = async (...args: string[]) =>
      ((await read('run', ...args)).called[1] as { source: { kind: string } }).source.kind
    assert.equal(await source(), 'kubernetes')
    assert.equal(await source('--source', 'files:a'), 'files')
  })
})

it('what a command throws is the caller’s', async () => {
  const refuse = () => Promise.reject(new Error('it broke'))
  const commands = {
    run: refuse,
    services: refuse,
    backends: refuse,
    flows: refuse,
    probe: refuse,
    cleanup: refuse,
    readConfiguration: refuse,
  }
  await assert.rejects(runProgram(['cleanup'], '', commands), /it broke/)
})
