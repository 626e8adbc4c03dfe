import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Commands, runProgram } from '../cli/program.ts'
import { yamlText } from '../source/files/yaml.ts'
import { parseConfiguration } from './configuration.ts'
import { CONFIGZ_GROUP, kubeProxyDocument } from './configz.ts'
import type { RunOptions } from './options.ts'

/** The options that these arguments of `sluice run` come to, with the text of the file of `--config`. */
async function optionsOf(args: readonly string[], text = ''): Promise<RunOptions> {
  let seen: RunOptions | undefined
  const unused = async () => assert.fail('another command')
  const commands: Commands = {
    ...{ services: unused, backends: unused, flows: unused, probe: unused, cleanup: unused },
    readConfiguration: async (paths) => parseConfiguration(paths.map((path) => ({ path, text }))),
    run: async (options) => {
      seen = options
    },
  }
  let said = ''
  const err = (line: string) => {
    said += line
  }
  await runProgram(['run', ...args], 'v', commands, { out: err, err })
  return seen ?? assert.fail(said)
}

test('it has the fields of kube-proxy’s own answer, in its order, with its values', async () => {
  const body = readFileSync(join(import.meta.dirname, 'testdata/configz.json'), 'utf8')
  const golden = JSON.parse(body)[CONFIGZ_GROUP]
  const options = await optionsOf(['--config', '/f', '--source', 'kubernetes'], JSON.stringify(golden))
  const expected = {
    ...golden,
    // A zero is the usual value, which kube-proxy fills in where the mode is this one only.
    ipvs: { ...golden.ipvs, syncPeriod: '30s' },
    nftables: { ...golden.nftables, syncPeriod: '30s' },
  }
  assert.equal(JSON.stringify(kubeProxyDocument(options, 'iptables')), JSON.stringify(expected))
})

test('what is written is read again as the same', async () => {
  const flags =
    '--source kubernetes --kubeconfig /k --node-name n1 --proxy-mode iptables --masquerade-all --iptables-masquerade-bit 15 ' +
    '--cluster-cidr 10.0.0.0/8,fd00::/8 --nodeport-addresses primary --iptables-sync-period 10s --conntrack-udp-timeout 7s ' +
    '--metrics-bind-address [::1]:9 --healthz-bind-address 10.0.0.1 --bind-address-hard-fail --v 4 --oom-score-adj 7'
  for (const line of [flags, '--source kubernetes --node-name n1']) {
    const first = await optionsOf(line.split(' '))
    const written = kubeProxyDocument(first, first.proxyMode)
    const again = await optionsOf(['--config', '/f', '--source', 'kubernetes'], yamlText(written))
    assert.deepEqual(kubeProxyDocument(again, again.proxyMode), written)
    const { configFiles: _files, kubeProxy: _values, oomScoreAdj: _score, ...rest } = again
    const { configFiles: _none, kubeProxy: _flags, oomScoreAdj: _own, model, ...wanted } = first
    // Without a range the mode that goes by it is written as none.
    assert.deepEqual(rest, { ...wanted, model })
  }
})
