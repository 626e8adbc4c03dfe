/**
 * Opens, connects and closes sockets, with and without the hooks of the datapath on its own cgroup. Runs in a network
 * namespace in which everything is local. Prints nanoseconds a socket as JSON. Started by sockets.ts, with the folder
 * of its cgroup as its argument.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import os from 'node:os'
import { attachCgroup, type BpfLink } from 'libbpf-ts'
import { SOCKET_PROGRAMS } from '../control/dataplane/bpf/socket-attachments.ts'
import { desiredState } from '../control/model/desired.ts'
// System calls without Node.js' event loop around them: it takes longer than what is measured.
import { libc } from '../loader/src/ffi.ts'
import { parseEndpoint } from '../tools/packets/build.ts'
import { BenchDatapath, removePinsAtExit } from './datapath.ts'
import { percentile } from './measure.ts'
import { clusterIp, ENDPOINT_PORT, NODE, SERVICE_PORT, serviceKey, syntheticCluster } from './synthetic.ts'

const SERVICES = 10
const ENDPOINTS = 10
const ROUNDS = 48
const WARM_UP_ROUNDS = 2
const SOCKETS = { udp: 1000, tcp: 100 }
/** Of the rounds: one in which the machine does little else. */
const QUIET = 0.1

const AF_INET = 2
const SOCK_STREAM = 1
const SOCK_DGRAM = 2
const CONNECT: Readonly<Record<string, number>> = { x64: 42, arm64: 203 }

/** Nanoseconds a socket. */
export interface SocketCosts {
  /** To an endpoint, without hooks. */
  readonly plain: number
  /** To an endpoint, past the hooks. */
  readonly past: number
  /** To a frontend, through the hooks. */
  readonly through: number
}

export type SocketReport = Readonly<Record<'udp' | 'tcp', SocketCosts>>

type Protocol = keyof SocketReport

class SocketBench {
  readonly #datapath: BenchDatapath
  readonly #cgroup: string
  readonly #frontend = socketAddress(`${clusterIp(0)}:${SERVICE_PORT}`)
  readonly #endpoint: Uint8Array

  readonly #server: Server
  #accepted = 0

  constructor(datapath: BenchDatapath, cgroup: string, server: Server, endpoint: string) {
    this.#server = server.on('connection', () => {
      this.#accepted += 1
    })
    this.#datapath = datapath
    this.#cgroup = cgroup
    this.#endpoint = socketAddress(`${endpoint}:${ENDPOINT_PORT}`)
  }

  /** In turns, as `takeTurns` does; the server gets its turn in between. */
  async compare(protocol: Protocol): Promise<SocketCosts> {
    const costs = { plain: [] as number[], past: [] as number[], through: [] as number[] }
    const contestants = {
      plain: () => connectMany(protocol, this.#endpoint),
      past: () => this.#hooked(() => connectMany(protocol, this.#endpoint)),
      through: () => this.#hooked(() => this.#balanced(protocol)),
    }
    for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
      const names = ['plain', 'past', 'through'] as const
      for (const name of round % 2 === 0 ? names : names.toReversed()) {
        const cost = contestants[name]()
        if (round >= 0) costs[name].push(cost)
        if (protocol === 'tcp') await this.#acceptAll()
      }
    }
    const quiet = (values: number[]): number => percentile(values, QUIET)
    return { plain: quiet(costs.plain), past: quiet(costs.past), through: quiet(costs.through) }
  }

  /** The server's queue is bounded, and a connection that finds it full waits for seconds. */
  async #acceptAll(): Promise<void> {
    while (this.#accepted < SOCKETS.tcp) await once(this.#server, 'connection')
    this.#accepted = 0
  }

  #balanced(protocol: Protocol): number {
    const before = this.#datapath.connections()
    const cost = connectMany(protocol, this.#frontend)
    const balanced = Number(this.#datapath.connections() - before)
    assert.equal(balanced, SOCKETS[protocol], `${balanced} of ${SOCKETS[protocol]} connections were balanced`)
    return cost
  }

  #hooked(run: () => number): number {
    const links: BpfLink[] = []
    try {
      for (const { name, hook, family } of SOCKET_PROGRAMS) {
        if (family !== 'ipv4' || (hook !== 'connect4' && hook !== 'sock_release')) continue
        const program = this.#datapath.dataplane.program(name)
        links.push(attachCgroup({ program, cgroup: this.#cgroup, hook }))
      }
      return run()
    } finally {
      for (const link of links) link.close()
    }
  }
}

/** Nanoseconds to open, connect and close a socket. */
function connectMany(protocol: Protocol, address: Uint8Array): number {
  const native = libc()
  const type = protocol === 'tcp' ? SOCK_STREAM : SOCK_DGRAM
  const number = CONNECT[os.arch()] ?? 0
  const count = SOCKETS[protocol]
  const start = process.hrtime.bigint()
  for (let i = 0; i < count; i++) {
    const socket = native.socket(AF_INET, type, 0)
    const result = native.syscall(number, socket, address, address.length)
    native.close(socket)
    if (result < 0) throw new Error(`a ${protocol} socket could not be connected`)
  }
  return Number(process.hrtime.bigint() - start) / count
}

/** A `struct sockaddr_in`. */
function socketAddress(text: string): Uint8Array {
  const { address, port } = parseEndpoint(text)
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  view.setUint16(0, AF_INET, true)
  view.setUint16(2, port)
  bytes.set(address, 4)
  return bytes
}

async function run(cgroup: string): Promise<SocketReport> {
  execFileSync('ip', ['link', 'set', 'lo', 'up'])
  execFileSync('ip', ['route', 'add', 'local', '10.0.0.0/8', 'dev', 'lo'])
  const server = createServer((socket) => socket.on('error', () => socket.destroy()).resume())
  server.listen(ENDPOINT_PORT, '0.0.0.0', 4096)
  await once(server, 'listening')
  await using datapath = new BenchDatapath(SERVICES)
  await datapath.start(ENDPOINTS)
  const { desired } = desiredState(syntheticCluster(SERVICES, ENDPOINTS), NODE)
  const endpoint = desired.services.get(serviceKey(0))?.[0]?.backends[0]?.address ?? ''
  const bench = new SocketBench(datapath, cgroup, server, endpoint)
  const report = { udp: await bench.compare('udp'), tcp: await bench.compare('tcp') }
  server.close()
  return report
}

const [cgroup] = process.argv.slice(2)
if (cgroup === undefined) throw new Error('usage: sockets-child.ts FOLDER_OF_ITS_CGROUP')
removePinsAtExit()
console.log(JSON.stringify(await run(cgroup)))
