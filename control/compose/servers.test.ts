import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, test } from 'node:test'
import { systemClock } from '../clock.ts'
import { Refusal } from '../config/refusal.ts'
import type { ProxyState } from '../server/health.ts'
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
  await assert.rejects(
    startServers(options({ healthzBindAddress, bindAddressHardFail: true })),
    (error) =>
      error instanceof Refusal &&
      /the health server cannot listen .*--bind-address-hard-fail/.test(error.message),
  )
  const warnings: string[] = []
  const warned = Promise.withResolvers<void>()
  const servers = await startServers({
    ...options({ healthzBindAddress }),
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
