import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, test } from 'node:test'
import { systemClock } from '../clock.ts'
import { Refusal } from '../config/refusal.ts'
import type { ProxyState } from '../server/health.ts'
import { serverEvent } from './node-events.ts'
import { checkPorts, type ServersOptions, startServers } from './servers.ts'

const state: ProxyState = {
  unwrittenSinceMs: undefined,
  lastSyncMs: undefined,
  startedMs: 0,
  adopted: false,
  nodeEligible: true,
  families: ['IPv4'],
  stalledWatches: [],
}

const off = { healthzBindAddress: undefined, metricsBindAddress: undefined, bindAddressHardFail: false }

const options = (fields: Partial<ServersOptions>, warnings: string[] = []): ServersOptions => ({
  ...off,
  nodePortAddresses: [],
  state: () => state,
  proxyMode: { dataplane: 'bpf', reason: 'fits' },
  configuration: () => ({}),
  metrics: { answered: () => undefined, scrape: () => '' },
  clock: systemClock,
  log: { debug: () => undefined, info: () => undefined, warn: (text) => warnings.push(text) },
  ...fields,
})

/** An address that somebody else has. */
async function taken() {
  const server = createServer().listen(0, '127.0.0.1')
  after(() => server.close())
  await once(server, 'listening')
  return { address: '127.0.0.1', port: (server.address() as AddressInfo).port }
}

test('a port that is taken ends the start where that is asked for, and is waited for elsewhere', async () => {
  const healthzBindAddress = await taken()
  const failures: string[] = []
  const serverFailed: ServersOptions['serverFailed'] = (...told) => failures.push(told.join(': '))
  await assert.rejects(
    startServers(options({ healthzBindAddress, bindAddressHardFail: true, serverFailed })),
    (error) =>
      error instanceof Refusal &&
      /the health server cannot listen .*--bind-address-hard-fail/.test(error.message),
  )
  const warnings: string[] = []
  const warned = Promise.withResolvers<void>()
  const servers = await startServers({
    ...options({ healthzBindAddress, serverFailed }),
    log: {
      debug: () => undefined,
      info: () => undefined,
      warn: (text) => {
        warnings.push(text)
        warned.resolve()
      },
    },
  })
  await warned.promise
  servers.close()
  assert.match(warnings[0] ?? '', /^the health server: cannot listen on .*tried again every 5 s$/)
  assert.equal(failures.length, 2, 'each is told once')
  for (const failure of failures) assert.match(failure, /^health: the health server:? cannot listen on /)
})

test('a server whose port is taken is an event of the Node by the name that kube-proxy has for it', () => {
  const note = 'cannot listen'
  const event = (reason: string) => ({ type: 'Warning', reason, action: 'StartSluice', note })
  assert.deepEqual(serverEvent('health', note), event('FailedToStartProxierHealthcheck'))
  assert.deepEqual(serverEvent('metrics', note), event('FailedToStartMetricServer'))
})

test('where a taken port ends the start, it is asked for before anything else, and given back', async () => {
  const metricsBindAddress = await taken()
  await assert.rejects(checkPorts(options({ metricsBindAddress, bindAddressHardFail: true })), Refusal)
  await checkPorts(options({ metricsBindAddress }))
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const at = { address: '127.0.0.1', port: (free.address() as AddressInfo).port }
  free.close()
  await once(free, 'close')
  const wanted = options({ healthzBindAddress: at, bindAddressHardFail: true })
  await checkPorts(wanted)
  const servers = await startServers(wanted)
  servers.close()
})

test('health-check node ports are at the addresses of the node that take node ports, if not at every one', async () => {
  const check = { namespace: 'd', name: 'web', port: (await taken()).port, localEndpoints: 1 }
  const addresses = [
    { address: '127.0.0.2', nodePort: true, loopback: false },
    { address: '127.0.0.3', nodePort: false, loopback: false },
    { address: '127.0.0.4', nodePort: true, loopback: true },
  ]
  const servers = await startServers(options({ nodePortAddresses: ['127.0.0.2/32'] }))
  servers.healthChecks.setChecks(new Map([['d/web', check]]))
  assert.equal(servers.healthChecks.size, 0)
  servers.setAddresses(addresses)
  assert.equal(servers.healthChecks.size, 1)
  servers.setAddresses([...addresses, { address: '127.0.0.5', nodePort: true, loopback: false }])
  assert.equal(servers.healthChecks.size, 2)
  servers.close()
  assert.equal(servers.healthChecks.size, 0)
})
