import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Cluster, PodName } from './index.ts'
import {
  CLIENT,
  createCluster,
  FAMILIES,
  formatSocketAddress,
  NODES,
  POD_NAMES,
  PODS,
  tally,
  until,
} from './index.ts'

const prefix = `slt${process.pid}`

describe('the little cluster', () => {
  let cluster: Cluster
  before(async () => {
    cluster = await createCluster({ prefix })
  })
  after(() => cluster.remove())

  for (const family of FAMILIES) {
    const at = (name: PodName, port: number): string =>
      formatSocketAddress({ address: PODS[name][family], port })

    test(`every pod reaches every pod, itself included, and is seen with its own address (${family})`, async () => {
      for (const from of POD_NAMES) {
        const answers = await Promise.all(POD_NAMES.map((to) => cluster.pod(from).ask({ to: at(to, 8080) })))
        const seen = answers.map((answer) =>
          answer.ok ? [answer.backend, answer.peer.address] : answer.error,
        )
        assert.deepEqual(
          seen,
          POD_NAMES.map((to) => [to, PODS[from][family]]),
        )
      }
    })

    test(`the client reaches pods by routes, on TCP and UDP, connected and not (${family})`, async () => {
      for (const to of POD_NAMES) {
        const tcp = await cluster.client.ask({ to: at(to, 9090) })
        const udp = await cluster.client.ask({ to: at(to, 5353), protocol: 'udp' })
        const loose = await cluster.client.ask({ to: at(to, 5353), protocol: 'udp', connected: false })
        for (const answer of [tcp, udp, loose]) {
          assert.ok(answer.ok, JSON.stringify(answer))
          assert.equal(answer.backend, to)
          assert.equal(answer.peer.address, CLIENT[family])
          assert.equal(answer.remote.address, PODS[to][family])
          assert.equal(answer.peer.port, answer.local.port)
        }
      }
    })

    test(`a pod that leaves the cluster is masqueraded, as its CNI would (${family})`, async () => {
      const served = { protocol: 'tcp', port: 7000, address: CLIENT[family] } as const
      await cluster.client.serve(served)
      const answer = await cluster.pod('p3').ask({ to: formatSocketAddress(served) })
      assert.ok(answer.ok)
      assert.equal(answer.peer.address, NODES.n1[family])
    })

    test(`a line may be long: many segments, many fragments (${family})`, async () => {
      const tcp = await cluster.pod('p1').ask({ to: at('p5', 8080), bytes: 300_000 })
      assert.equal(tcp.ok && tcp.echo.length, 300_000)
      const udp = await cluster.pod('p1').ask({ to: at('p5', 5353), protocol: 'udp', bytes: 8000 })
      assert.equal(udp.ok && udp.echo.length, 8000)
    })
  }

  test('the source port can be chosen, and is free again after a reset', async () => {
    const answers = await cluster.client.request({
      to: `${PODS.p1.ipv4}:8080`,
      localPort: 45_000,
      count: 3,
      reset: true,
    })
    for (const answer of answers) assert.equal(answer.ok && answer.peer.port, 45_000)
  })

  test('what nobody serves is refused, at both protocols', async () => {
    const to = `${PODS.p2.ipv4}:1`
    assert.deepEqual(await cluster.client.ask({ to }), { ok: false, error: 'ECONNREFUSED' })
    assert.deepEqual(await cluster.client.ask({ to, protocol: 'udp' }), { ok: false, error: 'ECONNREFUSED' })
    const silent = await cluster.client.ask({ to: '192.168.1.77:1', protocol: 'udp', timeoutMs: 50 })
    assert.deepEqual(silent, { ok: false, error: 'TIMEOUT' })
  })

  test('connections stay open in a group and all answer; a backend that stops serving resets them', async () => {
    await cluster.pod('p5').serve({ protocol: 'tcp', port: 7001 })
    const group = await cluster.client.open({ to: `${PODS.p5.ipv4}:7001`, count: 200 })
    assert.deepEqual(tally(group.answers), { p5: 200 })
    assert.deepEqual(tally(await group.exchange()), { p5: 200 })
    await cluster.pod('p5').unserve({ protocol: 'tcp', port: 7001 })
    assert.deepEqual(tally(await group.exchange()), { ECONNRESET: 200 })
    await group.close()
  })

  test('a load reports its answers, and its failures', async () => {
    await cluster.pod('p6').serve({ protocol: 'tcp', port: 7002 })
    const to = `${PODS.p6.ipv4}:7002`
    const keep = await cluster.client.load({ to, mode: 'keep', clients: 2, intervalMs: 1 })
    const fresh = await cluster.client.load({ to, mode: 'new', intervalMs: 1 })
    assert.equal((await keep.report(10)).failures.length, 0)
    assert.equal((await fresh.report(10)).failures.length, 0)
    await cluster.pod('p6').unserve({ protocol: 'tcp', port: 7002 })
    const failing = await fresh.report(1000)
    assert.ok(failing.failures.length > 0)
    const report = await keep.end()
    assert.ok((report.backends['p6'] ?? 0) >= 10)
    await fresh.end()
  })

  test('a program runs in the namespace and in the cgroup of its member', async () => {
    const node = cluster.node('n1')
    const { stdout } = await node.exec(
      ['sh', '-c', 'cat /proc/self/cgroup; ip -brief address show dev eth0; ls -d "$PINS"; cat', 'x'],
      { env: { PINS: node.bpfRoot }, input: 'typed' },
    )
    assert.match(stdout, new RegExp(`^0::.*/${prefix}-n1$`, 'm'))
    assert.match(stdout, /192\.168\.1\.11/)
    assert.match(stdout, /typed$/)
    assert.ok(stdout.includes(`${node.bpfRoot}\n`))
    await assert.rejects(node.exec(['sh', '-c', 'echo no >&2; exit 3']), /on n1 failed \(3\): no/)
    assert.equal((await node.exec(['false'], { anyCode: true })).code, 1)
  })

  test('curl is answered as well', async () => {
    const { stdout } = await cluster.node('n2').exec(['curl', '-sS', `http://${PODS.p5.ipv4}:8080/`])
    assert.match(stdout, /^p5 at 10\.244\.2\.15:8080 was asked by 10\.244\.2\.1:\d+$/m)
  })

  test('a pod loses its device and gets another one, on the bridge and on a link of its own', async () => {
    for (const name of ['p2', 'p4'] as const) {
      const targets = FAMILIES.map((family) =>
        formatSocketAddress({ address: PODS[name][family], port: 8080 }),
      )
      await cluster.unplug(name)
      for (const to of targets) {
        assert.equal((await cluster.pod('p1').ask({ to, timeoutMs: 50 })).ok, false)
      }
      await cluster.plug(name)
      for (const to of targets) {
        const ask = () => cluster.pod('p1').ask({ to, timeoutMs: 2000 })
        assert.ok(await until(async () => (await ask()).ok, 10_000), to)
      }
    }
    await assert.rejects(cluster.plug('p2'), /p2 could not be plugged in: .*File exists/s)
  })

  test('an operation that cannot be tried is an error, not an answer', async () => {
    await assert.rejects(
      cluster.pod('p1').serve({ protocol: 'tcp', port: 8080 }),
      /agent of p1: .*EADDRINUSE/,
    )
  })
})

test('settings reach the nodes: reverse path filter, policy, INVALID, bridge netfilter', async () => {
  await using cluster = await createCluster({
    prefix,
    agents: false,
    rpFilter: 1,
    forwardPolicyDrop: true,
    dropInvalid: true,
    masquerade: false,
    brNetfilter: existsSync('/proc/sys/net/bridge') ? 1 : 0,
  })
  const node = cluster.node('n1')
  for (const command of ['iptables-save', 'ip6tables-save']) {
    const { stdout: rules } = await node.exec([command])
    assert.match(rules, /:FORWARD DROP/)
    assert.match(rules, /-A INPUT .*INVALID -j DROP/)
    assert.doesNotMatch(rules, /MASQUERADE/)
    assert.equal(/rpfilter/.test(rules), command === 'ip6tables-save')
  }
  assert.equal((await node.exec(['sysctl', '-n', 'net.ipv4.conf.all.rp_filter'])).stdout, '1\n')
  if (existsSync('/proc/sys/net/bridge')) {
    const names = ['iptables', 'ip6tables'].map((name) => `net.bridge.bridge-nf-call-${name}`)
    assert.equal((await node.exec(['sysctl', '-n', ...names])).stdout, '1\n1\n')
  }
})

/** Everything on the machine with this text in its name. */
function named(text: string): string {
  const find = ['/run/netns', '/sys/fs/bpf', '/sys/fs/cgroup'].filter((path) => existsSync(path))
  return execFileSync('find', [...find, '-name', `*${text}*`], { encoding: 'utf8' })
}

test('removal ends the processes and leaves no name behind, and may be repeated', async () => {
  const cluster = await createCluster({ prefix, agents: false })
  const child = cluster.node('n1').spawn(['sh', '-c', 'echo up; exec sleep 1000'], { stdio: 'pipe' })
  const ended = once(child, 'exit')
  if (child.stdout !== null) await once(child.stdout, 'data')
  assert.notEqual(named(`${prefix}-`), '')
  await cluster.remove()
  assert.deepEqual(await ended, [null, 'SIGKILL'])
  assert.equal(named(`${prefix}-`), '')
  await cluster.remove()
})

/** A process that builds a cluster, says so, and stays. */
async function builder(own: string) {
  const script = `
    const { createCluster } = await import(${JSON.stringify(join(import.meta.dirname, 'index.ts'))})
    const cluster = await createCluster({ prefix: \`${own}\${process.pid}\`, agents: false })
    cluster.node('n2').spawn(['sleep', '1000'])
    process.stdout.write('built')
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const failed = ended.then(([code]) => {
    throw new Error(`no cluster was built: exit code ${code}`)
  })
  failed.catch(() => undefined)
  await Promise.race([once(child.stdout, 'data'), failed])
  return { child, ended, name: `${own}${child.pid}-` }
}

test('Ctrl-C removes the cluster, and then ends the process as it would have', async () => {
  const { child, ended, name } = await builder('slc')
  assert.notEqual(named(name), '')
  child.kill('SIGINT')
  assert.deepEqual(await ended, [null, 'SIGINT'])
  assert.equal(named(name), '')
})

test('what a killed process left is removed by the next cluster', async () => {
  const { child, ended, name } = await builder('slk')
  child.kill('SIGKILL')
  await ended
  assert.notEqual(named(name), '')
  await using cluster = await createCluster({ prefix, agents: false })
  assert.equal(named(name), '')
  assert.notEqual(named(`${cluster.prefix}-`), '')
})

test('a step that fails is named, and nothing stays', async () => {
  const taken = `slf${process.pid}`
  execFileSync('ip', ['netns', 'add', `${taken}-p6`])
  await assert.rejects(createCluster({ prefix: taken }), /could not be built:.*(File exists|p6)/s)
  assert.equal(named(`${taken}-`), '')
})

test('file descriptors are as many as before', async () => {
  const descriptors = (): number => readdirSync('/proc/self/fd').length
  const earlier = descriptors()
  await (await createCluster({ prefix })).remove()
  assert.equal(descriptors(), earlier)
})
