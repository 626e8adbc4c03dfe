import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { EXIT_OK, EXIT_USAGE, runProgram } from '../cli/program.ts'
import { DEFAULT_MODEL_SETTINGS } from '../model/settings.ts'
import type { RunOptions } from './options.ts'

/** What `sluice run` makes of these options: its own, or the line that refuses them. */
async function read(line: string): Promise<RunOptions | string> {
  let seen: RunOptions | undefined
  let err = ''
  const nothing = async () => {}
  const commands = {
    run: async (options: RunOptions) => {
      seen = options
    },
    services: nothing,
    backends: nothing,
    flows: nothing,
    probe: nothing,
    cleanup: nothing,
    readConfiguration: () => assert.fail('there is no --config'),
  }
  const terminal = {
    out: () => {},
    err: (text: string) => {
      err += text
    },
  }
  const args = ['run', '--source', 'files:a', ...line.split(' ').filter((word) => word !== '')]
  const code = await runProgram(args, '', commands, terminal)
  assert.equal(code, seen === undefined ? EXIT_USAGE : EXIT_OK)
  return seen ?? err
}

describe('who is a pod of this node, and whose address is kept', () => {
  const both = { ipv4: '10.244.0.0/16', ipv6: 'fd00:10::/56' }
  const rows: [line: string, settings: object][] = [
    ['', {}],
    [
      '--cluster-cidr 10.244.0.0/16',
      { detectLocal: { mode: 'ClusterCIDR', cidrs: { ipv4: '10.244.0.0/16' } } },
    ],
    ['--cluster-cidr 10.244.1.2/16,fd00:10::/56', { detectLocal: { mode: 'ClusterCIDR', cidrs: both } }],
    [
      '--detect-local-mode ClusterCIDR --cluster-cidr=fd00:10::/56',
      { detectLocal: { mode: 'ClusterCIDR', cidrs: { ipv6: 'fd00:10::/56' } } },
    ],
    ['--detect-local-mode ClusterCIDR', { detectLocal: { mode: 'ClusterCIDR', cidrs: {} } }],
    ['--detect-local-mode NodeCIDR --cluster-cidr 10.244.0.0/16', { detectLocal: { mode: 'NodeCIDR' } }],
    [
      '--detect-local-mode BridgeInterface --pod-bridge-interface cni0',
      { detectLocal: { mode: 'BridgeInterface', name: 'cni0' } },
    ],
    [
      '--detect-local-mode InterfaceNamePrefix --pod-interface-name-prefix cali',
      { detectLocal: { mode: 'InterfaceNamePrefix', prefix: 'cali' } },
    ],
    ['--masquerade-all', { masqueradeAll: true }],
    ['--masquerade-all=true', { masqueradeAll: true }],
    ['--masquerade-all=false', {}],
    ['--client-address kube-proxy', { clientAddress: 'kube-proxy' }],
  ]
  for (const [line, settings] of rows) {
    it(line === '' ? 'nothing said' : line, async () => {
      const options = await read(line)
      assert.ok(typeof options === 'object', String(options))
      const { scheduler: _, schedulers: __, ...defaults } = DEFAULT_MODEL_SETTINGS
      assert.deepEqual(options.model, { ...defaults, ...settings })
    })
  }

  it('--iptables-masquerade-bit', async () => {
    const options = await read('--iptables-masquerade-bit 31')
    assert.ok(typeof options === 'object')
    assert.equal(options.masqueradeBit, 31)
  })
})

describe('a value that makes no sense is told in one line', () => {
  const RANGE = 'It takes a range such as 10.244.0.0/16, or one of each family: 10.244.0.0/16,fd00:10::/56.'
  const rows: [line: string, err: string][] = [
    [
      '--cluster-cidr 10.244.0.0',
      `option '--cluster-cidr <CIDRS>' argument '10.244.0.0' is invalid. ${RANGE}`,
    ],
    [
      '--cluster-cidr 10.1.0.0/16,10.2.0.0/16',
      `option '--cluster-cidr <CIDRS>' argument '10.1.0.0/16,10.2.0.0/16' is invalid. ${RANGE}`,
    ],
    [
      '--detect-local-mode Nodes',
      "option '--detect-local-mode <MODE>' argument 'Nodes' is invalid. Allowed choices are ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix.",
    ],
    [
      '--detect-local-mode BridgeInterface',
      '--detect-local-mode BridgeInterface needs --pod-bridge-interface.',
    ],
    [
      '--detect-local-mode InterfaceNamePrefix',
      '--detect-local-mode InterfaceNamePrefix needs --pod-interface-name-prefix.',
    ],
    ['--pod-bridge-interface cni0', '--pod-bridge-interface goes with --detect-local-mode BridgeInterface.'],
    [
      '--detect-local-mode BridgeInterface --pod-bridge-interface a/b',
      "option '--pod-bridge-interface <NAME>' argument 'a/b' is invalid. It takes (the beginning of) the name of a network device.",
    ],
    [
      '--masquerade-all=maybe',
      "option '--masquerade-all [BOOL]' argument 'maybe' is invalid. It takes true or false.",
    ],
    [
      '--client-address keep',
      "option '--client-address <HOW>' argument 'keep' is invalid. Allowed choices are preserve, kube-proxy.",
    ],
    ...['32', '-1', '13', 'x'].map((bit): [string, string] => [
      `--iptables-masquerade-bit=${bit}`,
      `option '--iptables-masquerade-bit <BIT>' argument '${bit}' is invalid. It takes a bit from 0 to 31 that is not Sluice's own: 13 and 12 are.`,
    ]),
  ]
  for (const [line, err] of rows) {
    it(line, async () => assert.equal(await read(line), `sluice: ${err}\n`))
  }
})
