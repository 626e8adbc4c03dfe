import assert from 'node:assert/strict'
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { patience } from '../../../tools/cluster/index.ts'
import type { NodeAddress } from '../../layout/node-addresses.ts'
import { type RunCommand, runCommand } from '../netfilter/command.ts'
import { outputChains } from './local-output.ts'
import { backend, outputPort } from './local-output-fixtures.ts'
import { createNetfilter, removeNetfilter } from './netfilter.ts'

const PREFIX = `slt${process.pid.toString()}so`
const NODE = `${PREFIX}-node`
const PODS = `${PREFIX}-pods`

const ADDRESSES: readonly NodeAddress[] = ['10.77.0.1', 'fd77::1'].map((address) => ({
  address,
  nodePort: true,
  loopback: false,
}))

const inNode: RunCommand = (argv, input) => runCommand(['ip', 'netns', 'exec', NODE, ...argv], input)

const subject = (lines: string[]) =>
  createNetfilter({
    marks: { masquerade: 1 << 14, accept: 1 << 13 },
    nodePorts: { first: 30_000, last: 32_767 },
    families: [],
    log: { info: (text) => lines.push(`info ${text}`), warn: (text) => lines.push(`warn ${text}`) },
    run: inNode,
  })

const web4 = outputPort({
  frontends: [
    { kind: 'ClusterIP', address: '10.96.0.1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30_080 },
  ],
  backends: [backend('10.77.0.2', 8080), backend('10.77.0.3', 8080)],
})
const web6 = outputPort({
  family: 'ipv6',
  frontends: [
    { kind: 'ClusterIP', address: 'fd96::1', port: 80 },
    { kind: 'NodePort', address: undefined, port: 30_080 },
  ],
  backends: [backend('fd77::2', 8080), backend('fd77::3', 8080)],
  affinitySeconds: 10_800,
})
const tcp4 = outputPort({
  ...web4,
  protocol: 'TCP',
  affinitySeconds: 10_800,
})
const udp6 = outputPort({ ...web6, protocol: 'UDP', affinitySeconds: 0 })
const emptyTcp6 = outputPort({ ...web6, protocol: 'TCP', cluster: [] })
const emptyUdp = outputPort({ ...web4, protocol: 'UDP', cluster: [] })
const empty = outputPort({ frontends: [{ kind: 'ClusterIP', address: '10.96.0.2', port: 80 }] })
const empty6 = outputPort({
  family: 'ipv6',
  frontends: [{ kind: 'ClusterIP', address: 'fd96::2', port: 80 }],
})

describe('services that netfilter translates for the node', () => {
  before(() => {
    for (const namespace of [NODE, PODS]) execFileSync('ip', ['netns', 'add', namespace])
    execFileSync('ip', ['-n', NODE, '-batch', '-'], {
      input: `link add eth0 type veth peer name eth0 netns ${PODS}
link set lo up
link set eth0 up
address add 10.77.0.1/24 dev eth0
address add fd77::1/64 dev eth0 nodad
route add default via 10.77.0.2
`,
    })
    execFileSync('ip', ['-n', PODS, '-batch', '-'], {
      input: `link set lo up
link set eth0 up
address add 10.77.0.2/24 dev eth0
address add 10.77.0.3/24 dev eth0
address add fd77::2/64 dev eth0 nodad
address add fd77::3/64 dev eth0 nodad
`,
    })
    execFileSync('ip', ['-n', NODE, '-6', 'route', 'add', 'default', 'via', 'fd77::2'])
  })
  after(() => {
    for (const namespace of [NODE, PODS]) spawnSync('ip', ['netns', 'delete', namespace])
  })

  test('this kernel takes the chains; they come and go with the services, and are repaired', async () => {
    const lines: string[] = []
    const netfilter = subject(lines)
    await netfilter.ensure()
    await netfilter.setOutput(
      outputChains([web4, web6, tcp4, udp6, empty, empty6, emptyTcp6, emptyUdp], ADDRESSES),
    )
    const listing = async () => (await inNode(['nft', 'list', 'table', 'inet', 'sluice'])).stdout
    const installed = await listing()
    assert.match(installed, /chain local_output \{\n\t+type nat hook output priority -?\w+/)
    assert.equal(installed.match(/dnat ip6? /g)?.length, 4 * 2)
    assert.equal(installed.match(/ct state new reject/g)?.length, 2 + 2 * 2)
    await netfilter.ensure()
    assert.equal(await listing(), installed)
    assert.deepEqual(lines, ['info installed nft table inet sluice'])

    await inNode(['nft', 'flush', 'chain', 'inet', 'sluice', 'local_output'])
    await netfilter.ensure()
    assert.equal(await listing(), installed)
    assert.match(lines[1] ?? '', /^warn repaired nft table/)

    const next = subject([])
    await next.ensure()
    assert.equal(
      await listing(),
      installed,
      'what an earlier process left stays until the services are known',
    )
    await next.setOutput([])
    await next.ensure()
    assert.doesNotMatch(await listing(), /_output|_refuse/)
    assert.match(await listing(), /nat_postrouting/)
    await next.setOutput(outputChains([web4], ADDRESSES))
    assert.deepEqual((await removeNetfilter(inNode)).removed, ['nft table inet sluice'])
  })

  test('a socket connects to every kind of address, gets every backend, and is refused where there is none', {
    skip: whyNoSctp(),
    timeout: patience(120_000),
  }, async () => {
    const lines: string[] = []
    const netfilter = subject(lines)
    await netfilter.setOutput(outputChains([web4, web6, empty, empty6], ADDRESSES))
    assert.deepEqual(lines, [])
    const servers = await Promise.all(SERVED.map(serve))
    try {
      const [both, one] = [['10.77.0.2', '10.77.0.3'], /^fd77::[23]$/] as const
      for (const to of [
        ['10.96.0.1', 80],
        ['10.77.0.1', 30_080],
      ] as const) {
        assert.deepEqual(
          [...new Set(await connectOften(to[0], to[1]))].sort(),
          both,
          `through ${to.join(':')}`,
        )
      }
      for (const to of [
        ['fd96::1', 80],
        ['fd77::1', 30_080],
      ] as const) {
        const served = [...new Set(await connectOften(to[0], to[1]))]
        assert.equal(served.length, 1, 'affinity')
        assert.match(served[0] ?? '', one)
      }
      assert.deepEqual(await connectOften('10.96.0.2', 80, 1), ['ECONNREFUSED'])
    } finally {
      for (const server of servers) server.kill('SIGTERM')
    }
  })
})

const SERVED = ['10.77.0.2', '10.77.0.3', 'fd77::2', 'fd77::3']

/** A kind of address of socat. */
const kindOf = (verb: 'LISTEN' | 'CONNECT', address: string): string =>
  address.includes(':') ? `SCTP6-${verb}` : `SCTP4-${verb}`
const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address)

/** A server at an address and port 8080, which says to everybody what its address is. Resolves when it listens. */
async function serve(address: string): Promise<ChildProcess> {
  const listen = `${kindOf('LISTEN', address)}:8080,bind=${bracketed(address)},fork`
  // A colon separates words of socat.
  const says = `EXEC:echo ${address.replaceAll(':', '\\:')}`
  const argv = ['netns', 'exec', PODS, 'socat', '-d', '-d', '-U', listen, says]
  const server = spawn('ip', argv, { stdio: ['ignore', 'ignore', 'pipe'] })
  const said: string[] = []
  return await new Promise((resolve, reject) => {
    createInterface(server.stderr).on('line', (line) => {
      said.push(line)
      if (/listening on/.test(line)) resolve(server)
    })
    server.on('exit', () => reject(new Error(`no SCTP server at ${address}: ${said.join('; ')}`)))
  })
}

/**
 * What each of so many connections is told, or why there is none. Servers talk of each meanwhile: somebody has to listen,
 * or they stand still.
 */
async function connectOften(address: string, port: number, times = 24): Promise<string[]> {
  const connect = `socat -u ${kindOf('CONNECT', address)}:${bracketed(address)}:${port} - 2>&1`
  const script = `for i in $(seq ${times}); do ${connect}; done; true`
  const { stdout } = await promisify(execFile)('ip', ['netns', 'exec', NODE, 'sh', '-c', script])
  return stdout
    .trim()
    .split('\n')
    .map((line) => (/Connection refused/.test(line) ? 'ECONNREFUSED' : line))
}

/** The reason to skip; false where there is SCTP. */
function whyNoSctp(): string | false {
  const argv = ['-u', '/dev/null', 'SCTP4-CONNECT:127.0.0.1:9']
  const { stderr, error } = spawnSync('socat', argv, { encoding: 'utf8' })
  if (error !== undefined) return 'socat is not installed'
  return /Connection refused/.test(stderr) ? false : `this kernel has no SCTP sockets: ${stderr.trim()}`
}
