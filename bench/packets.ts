/** Nanoseconds a packet, by test runs of the kernel, above an empty program. */
import assert from 'node:assert/strict'
import {
  BpfError,
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  type TestRunOptions,
  type TestRunResult,
} from 'libbpf-ts'
import { viewOf } from '../control/layout/bytes.ts'
import { protocolNumber } from '../control/layout/family.ts'
import { ETHERNET_HEADER, IP_HEADER, IPV6_HEADER } from '../tools/packets/build.ts'
import { FAMILIES, type FamilyNumber } from '../tools/packets/family.ts'
import { readPacket } from '../tools/packets/read.ts'
import { BenchDatapath, compileBench, loadMeasuring, type UnderTest, word } from './datapath.ts'
import { endsOf, establishTcp, establishUdp, type Flow, reply, request, syn } from './flows.ts'
import { stayOnOneCpu } from './machine.ts'
import { type Contestant, takeTurns, WARM_UP_ROUNDS } from './measure.ts'
import { type Finding, formatNumber } from './result.ts'
import { clusterIp, SERVICE_PORT } from './synthetic.ts'

const FEW = 10
const MANY = 50_000
const ENDPOINTS = 10
const ROUNDS = 48

const CLIENT = '10.32.0.5'
/** New flows come from here on. */
const FIRST_STRANGER = '10.16.0.1'
const STRANGERS = 2 ** 20

/** Aims of the design, in nanoseconds, and what "flat" is. */
const AIM_NO_SERVICE = 20
const AIM_ESTABLISHED: Readonly<Record<FamilyNumber, number>> = { 4: 110, 6: 140 }
const AIM_FLAT = 1.1

/** From one packet of a series to the next: large, so that no prefetcher guesses; prime, so that all have their turn. */
const STRIDE = 7919

/** Where the last four bytes of the addresses are. */
const LAST_WORDS = { 4: { source: 26, destination: 30 }, 6: { source: 34, destination: 50 } } as const

/** The kernel returns what the program returned as unsigned. */
const NEXT = 0xffff_ffff

/** What is measured: a packet, again and again, or a series of such. */
interface Case {
  readonly name: string
  /** Of the datapath; or, of a flow's request, nothing but the look-up. */
  readonly program: 'ingress' | 'egress' | 'look-up'
  /** As it comes in, for each datapath. */
  readonly packet: (datapath: BenchDatapath) => Uint8Array
  /** How many sources and destinations there are, from the packet's own on. One of each when left out. */
  readonly series?: (datapath: BenchDatapath) => Series
  /** Each packet opens a connection; else none does. */
  readonly opens?: true
  /** Costs so little that the clock, which tells whole nanoseconds, is too coarse for ratios of it. */
  readonly isTiny?: true
  /** Packets a test run. */
  readonly repeat: number
  readonly aim?: number
  /** Is this last packet of a run what it should have become? Throws AssertionError when not. */
  readonly check: (datapath: BenchDatapath, frame: Uint8Array) => void
}

interface Series {
  readonly sources: number
  readonly destinations: number
}

/** Nanoseconds a packet. */
interface Cost {
  readonly services: number
  readonly baseline: number
  readonly above: number
}

export async function measurePackets(): Promise<Finding[]> {
  using _ = stayOnOneCpu()
  const objectPath = compileBench()
  const findings: Finding[] = []
  for (const family of FAMILIES) {
    for (const finding of await measureFamily(family, objectPath)) {
      findings.push(family === 4 ? finding : { ...finding, name: `IPv6: ${finding.name}` })
    }
  }
  return findings
}

async function measureFamily(family: FamilyNumber, objectPath: string): Promise<Finding[]> {
  await using few = new BenchDatapath(FEW, family)
  await using many = new BenchDatapath(MANY, family)
  const datapaths = [few, many]
  for (const datapath of datapaths) await datapath.start(ENDPOINTS)
  const { hot, direct, spread } = await casesOf(family, datapaths)
  const findings: Finding[] = []
  for (const each of hot) {
    const costs = measure(each, datapaths, objectPath)
    findings.push(...findingsOf(each, costs), ...flatnessOf(each, costs))
  }
  for (const each of direct) findings.push(...findingsOf(each, measure(each, datapaths, objectPath)))
  for (const each of spread) findings.push(...findingsOf(each, measure(each, [many], objectPath)))
  return findings
}

/** Makes the flows, and describes what is to be measured on them. */
async function casesOf(
  family: FamilyNumber,
  datapaths: readonly BenchDatapath[],
): Promise<Record<'hot' | 'direct' | 'spread', Case[]>> {
  const frontend = `${clusterIp(0)}:${SERVICE_PORT}`
  const flows = new Map<BenchDatapath, { tcp: Flow; udp: Flow }>()
  for (const datapath of datapaths) {
    flows.set(datapath, {
      tcp: establishTcp(datapath, `${CLIENT}:40000`, frontend),
      udp: await establishUdp(datapath, `${CLIENT}:40000`, frontend),
    })
  }
  for (const datapath of datapaths.slice(1)) {
    for (let i = 1; i < datapath.services; i++)
      establishTcp(datapath, `${CLIENT}:40000`, `${clusterIp(i)}:${SERVICE_PORT}`)
  }
  const of = (datapath: BenchDatapath, protocol: 'tcp' | 'udp'): Flow => {
    const flow = flows.get(datapath)?.[protocol]
    if (flow === undefined) throw new Error('a datapath without flows')
    return flow
  }
  const established = (['tcp', 'udp'] as const).flatMap((protocol) => establishedCases(family, protocol, of))
  return {
    hot: [...unconcernedCases(family), ...established, newFlow(family, 'one frontend', () => 1)],
    direct: directCases(of),
    spread: spreadCases(family, of),
  }
}

function unconcernedCases(family: FamilyNumber): Case[] {
  const ends = { client: '172.16.0.1:40000', frontend: '172.16.0.2:443' }
  const packet = request({ family, protocol: 'TCP', ...ends })
  return (['ingress', 'egress'] as const).map((program) => ({
    name: `packet of no service, ${program}`,
    program,
    packet: () => packet,
    isTiny: true,
    repeat: 100_000,
    aim: AIM_NO_SERVICE,
    check: (_, frame) => assert.deepEqual(Buffer.from(frame), Buffer.from(packet)),
  }))
}

type FlowOf = (datapath: BenchDatapath, protocol: 'tcp' | 'udp') => Flow

function establishedCases(family: FamilyNumber, protocol: 'tcp' | 'udp', of: FlowOf): Case[] {
  const name = `established ${protocol.toUpperCase()} flow`
  return [
    {
      name: `${name}, request at ingress`,
      program: 'ingress',
      packet: (datapath) => request(of(datapath, protocol)),
      repeat: 50_000,
      aim: AIM_ESTABLISHED[family],
      check: (datapath, frame) => {
        const { client: from, backend: to } = of(datapath, protocol)
        assert.deepEqual(endsOf(readPacket(frame)), { from, to })
      },
    },
    {
      name: `${name}, reply at egress`,
      program: 'egress',
      packet: (datapath) => reply(of(datapath, protocol)),
      repeat: 50_000,
      aim: AIM_ESTABLISHED[family],
      check: (datapath, frame) => {
        const { client: to, frontend: from } = of(datapath, protocol)
        assert.deepEqual(endsOf(readPacket(frame)), { from, to })
      },
    },
  ]
}

/**
 * What pods say to each other directly: the filter lets it through to the look-ups, which find nothing. Among many
 * flows they have longer chains to walk.
 */
function directCases(of: FlowOf): Case[] {
  const client = `${CLIENT}:50000`
  const cases = [
    { name: 'packet to an endpoint, without a flow, ingress', program: 'ingress', toEndpoint: true },
    { name: 'packet from an endpoint, without a flow, egress', program: 'egress', toEndpoint: false },
  ] as const
  return cases.map(({ name, program, toEndpoint }) => {
    const packet = (datapath: BenchDatapath): Uint8Array => {
      const { backend } = of(datapath, 'tcp')
      const [from, to] = toEndpoint ? [client, backend] : [backend, client]
      return request({ family: datapath.family, protocol: 'TCP', client: from, frontend: to })
    }
    return {
      name,
      program,
      packet,
      repeat: 50_000,
      check: (datapath, frame) => assert.deepEqual(Buffer.from(frame), Buffer.from(packet(datapath))),
    }
  })
}

function newFlow(family: FamilyNumber, to: string, frontends: (datapath: BenchDatapath) => number): Case {
  return {
    name: `new TCP flow, ${to}`,
    program: 'ingress',
    packet: () => syn(family, `${FIRST_STRANGER}:40000`, `${clusterIp(0)}:${SERVICE_PORT}`),
    series: (datapath) => ({ sources: STRANGERS, destinations: frontends(datapath) }),
    opens: true,
    repeat: 10_000,
    check: checkBalanced,
  }
}

/**
 * One flow of each service in turn, more than the caches hold, beside the bare look-up of the same flows in the same
 * order.
 */
function spreadCases(family: FamilyNumber, of: FlowOf): Case[] {
  const requests: Pick<Case, 'packet' | 'series' | 'repeat'> = {
    packet: (datapath) => request(of(datapath, 'tcp')),
    series: ({ services }) => ({ sources: 1, destinations: services }),
    repeat: 50_000,
  }
  return [
    {
      ...requests,
      name: 'established TCP flows, request at ingress, one flow each service',
      program: 'ingress',
      check: checkBalanced,
    },
    {
      ...requests,
      name: 'established TCP flows, one flow each service, nothing but the look-up',
      program: 'look-up',
      check: () => undefined,
    },
    newFlow(family, 'all frontends', ({ services }) => services),
  ]
}

/** A packet of a series: its checksums are wrong by design of the series, its destination must be an endpoint. */
function checkBalanced({ family }: BenchDatapath, frame: Uint8Array): void {
  const destination = viewOf(frame).getUint32(LAST_WORDS[family].destination)
  assert.ok(destination >>> 23 === 0x0a80_0000 >>> 23, 'the packet did not go to an endpoint')
}

/** Lets the case run on the datapaths, each beside its own baseline. */
function measure(each: Case, datapaths: readonly BenchDatapath[], objectPath: string): Cost[] {
  const opened: BpfObject[] = []
  const before = datapaths.map((datapath) => datapath.connections())
  try {
    const contestants = datapaths.flatMap((datapath) => {
      const measuring = loadMeasuring(objectPath, datapath, underTest(each, datapath))
      const baseline = loadMeasuring(objectPath, datapath, 'empty')
      opened.push(measuring, baseline)
      return [
        contestant(each, datapath, baseline, () => undefined),
        contestant(each, datapath, measuring, (frame) => each.check(datapath, frame)),
      ]
    })
    const costs = takeTurns(ROUNDS, contestants)
    datapaths.forEach((datapath, i) => {
      checkConnections(each, Number(datapath.connections() - (before[i] ?? 0n)))
    })
    return datapaths.map(({ services }, i) => {
      const baseline = costs[2 * i] ?? Number.NaN
      return { services, baseline, above: (costs[2 * i + 1] ?? Number.NaN) - baseline }
    })
  } finally {
    for (const object of opened) object.close()
  }
}

function underTest({ program }: Case, { dataplane, family }: BenchDatapath): UnderTest {
  return program === 'look-up' ? `look_up${family}` : dataplane.program(program)
}

/** Every packet of a new flow was balanced, also those of runs that were interrupted; no other packet was. */
function checkConnections({ name, opens, repeat }: Case, balanced: number): void {
  const least = opens ? repeat * (ROUNDS + WARM_UP_ROUNDS) : 0
  assert.ok(opens ? balanced >= least : balanced === 0, `${name}: ${balanced} connections, expected ${least}`)
}

/** A test run of many packets, which must all pass and end as `check` says. */
function contestant(
  each: Case,
  datapath: BenchDatapath,
  measuring: BpfObject,
  check: (frame: Uint8Array) => void,
): Contestant {
  const data = each.packet(datapath)
  const series = each.series?.(datapath)
  const program = measuring.program(series === undefined ? 'again' : 'another')
  setOriginal(measuring.map('.data.original'), data)
  if (series !== undefined) setSeries(measuring.map('.data.series'), series)
  return () => {
    const { returnValue, durationNs, data: frame } = runThrough(program, { data, repeat: each.repeat })
    assert.equal(returnValue, NEXT, `${each.name}: the verdict is not "next"`)
    check(frame)
    return durationNs
  }
}

/** A test run ends early, without a result, when a signal comes: then once more. */
function runThrough(program: BpfProgram, options: TestRunOptions): TestRunResult {
  for (;;) {
    try {
      return program.testRun(options)
    } catch (error) {
      if (!(error instanceof BpfError) || error.errnoName !== 'EINTR') throw error
    }
  }
}

/** What `again` writes into each packet: see bench.bpf.c. */
function setOriginal(map: BpfMap, frame: Uint8Array): void {
  const original = new Uint8Array(map.valueSize)
  const family = frame[ETHERNET_HEADER] === 0x60 ? 6 : 4
  const { source, destination } = LAST_WORDS[family]
  const transport = ETHERNET_HEADER + (family === 4 ? IP_HEADER : IPV6_HEADER)
  const protocol = frame[ETHERNET_HEADER + (family === 4 ? 9 : 6)]
  const check = transport + (protocol === protocolNumber.TCP ? 16 : 6)
  original.set(frame.subarray(source, source + 4))
  original.set(frame.subarray(destination, destination + 4), 4)
  original.set(frame.subarray(transport, transport + 4), 8)
  original.set(frame.subarray(24, 26), 12) // IPv4's own checksum
  original.set(frame.subarray(check, check + 2), 14)
  map.update(word(0), original)
}

function setSeries(map: BpfMap, { sources, destinations }: Series): void {
  const series = new Uint8Array(map.valueSize)
  new Uint32Array(series.buffer).set([0, STRIDE, sources, destinations, 1, 1])
  map.update(word(0), series)
}

function findingsOf({ name, aim }: Case, costs: readonly Cost[]): Finding[] {
  return costs.map(({ services, baseline, above }) => ({
    name: `${name}, ${formatNumber(services)} services`,
    value: above,
    unit: 'ns',
    baseline,
    ...(aim === undefined ? {} : { aim }),
  }))
}

/** What a packet costs among many services by what it costs among few. */
function flatnessOf({ name, isTiny }: Case, [few, many]: readonly Cost[]): Finding[] {
  if (few === undefined || many === undefined) return []
  const whole = isTiny ? ', with the empty program' : ''
  const cost = ({ baseline, above }: Cost): number => (isTiny ? baseline + above : above)
  return [
    {
      name: `${name}${whole}, ${formatNumber(many.services)} by ${formatNumber(few.services)} services`,
      value: cost(many) / cost(few),
      unit: 'ratio',
      aim: AIM_FLAT,
    },
  ]
}
