/** Real requests, and what came of them as the table has words for it. */

import { type Answer, formatSocketAddress, type Member, NODES, tally } from '../../cluster/index.ts'
import { type Asker, isNode } from '../addresses.ts'
import type { Outcome, SeenSource } from '../judge.ts'
import type { Expectation, Probe } from '../types.ts'
import type { SctpNetwork } from './sctp.ts'

/** One limit for all that must stay silent: far more than an answer takes here. */
const SILENCE_MS = 1000
/** Far more than an answer takes on a busy machine. */
const ANSWER_MS = 10_000
/** Of one who asks: enough to be quick, few enough for backends to take turns. */
const REQUESTS_AT_ONCE = 4
/** Enough for each of so few endpoints to have had its turn, though others take turns with this client. */
const ROUNDS_MAX = 12
/** To tell that one client stays with one backend. */
const STICKY_REQUESTS = 15

export interface Question {
  readonly asker: Asker
  readonly member: Member
  readonly target: { readonly address: string; readonly port: number }
  readonly probe: Pick<Probe, 'to' | 'protocol' | 'bytes'>
  readonly expected: Expectation
  /** Of this node, beside those that every node of the cluster has. */
  readonly nodeAddresses: ReadonlySet<string>
  readonly sctp: SctpNetwork
}

/** Asks as often as it takes to see what is expected, or that it does not come. */
export async function ask(question: Question): Promise<Outcome> {
  const { expected } = question
  if (expected.what !== 'answered') return await askOnce(question)
  const answers: Answer[] = []
  const count = expected.sticky === true ? STICKY_REQUESTS : 2 * expected.by.length
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    answers.push(...(await request(question, { count, timeoutMs: ANSWER_MS })))
    const outcome = outcomeOf(answers, question)
    if (expected.sticky === true || outcome.what !== 'answered') return outcome
    if (outcome.by.length >= expected.by.length) return outcome
  }
  return outcomeOf(answers, question)
}

async function askOnce(question: Question): Promise<Outcome> {
  const timeoutMs = question.expected.what === 'refused' ? ANSWER_MS : SILENCE_MS
  const outcome = outcomeOf(await request(question, { count: 1, timeoutMs }), question)
  return leadsNowhere(question, outcome) ? { what: 'unhandled' } : outcome
}

/** What is not handled of a ClusterIP goes on to the router, which sends it here again, where it is dropped or its time is up. */
function leadsNowhere({ probe, expected }: Question, outcome: Outcome): boolean {
  const isOver = outcome.what === 'dropped' || (outcome.what === 'else' && outcome.details === 'EHOSTUNREACH')
  return expected.what === 'unhandled' && probe.to === 'cluster-ip' && isOver
}

async function request(
  { asker, member, target, probe, sctp }: Question,
  more: { readonly count: number; readonly timeoutMs: number },
): Promise<readonly Answer[]> {
  if (probe.protocol === 'SCTP') return await sctp.ask(member, target, more)
  return await member.request({
    to: formatSocketAddress(target),
    protocol: probe.protocol === 'UDP' ? 'udp' : 'tcp',
    ...(asker.bound ? { localAddress: asker.address } : {}),
    ...(probe.bytes === undefined ? {} : { bytes: probe.bytes }),
    concurrency: REQUESTS_AT_ONCE,
    ...more,
  })
}

function outcomeOf(answers: readonly Answer[], question: Question): Outcome {
  const answered = answers.filter((answer) => answer.ok)
  const errors = new Set(answers.flatMap((answer) => (answer.ok ? [] : [answer.error])))
  if (answered.length > 0 && errors.size > 0) {
    return { what: 'else', details: `mixed: ${JSON.stringify(tally(answers))}` }
  }
  if (answered.length === 0) return errorOutcome([...errors])
  const { target, probe } = question
  if (probe.bytes !== undefined && answered.some(({ echo }) => echo.length !== probe.bytes)) {
    return { what: 'else', details: 'an answer was cut' }
  }
  if (answered.every(({ backend, server }) => backend === 'n1' && server.port === target.port)) {
    return { what: 'unhandled' }
  }
  const by = [...new Set(answered.map(({ backend, server }) => `${backend}:${server.port}`))].sort()
  return {
    what: 'answered',
    by,
    sources: answered.map((answer) => sourceOf(answer.peer.address, question, answer.backend)),
    sticky: by.length === 1,
  }
}

function errorOutcome(errors: readonly string[]): Outcome {
  const [error = 'nothing was asked'] = errors
  if (errors.length > 1) return { what: 'else', details: errors.join(' and ') }
  if (error === 'ECONNREFUSED') return { what: 'refused' }
  // The second is what a socket of the node is told at once.
  if (error === 'TIMEOUT' || error === 'ETIMEDOUT') return { what: 'dropped' }
  return { what: 'else', details: error }
}

function sourceOf(seen: string, { asker, target, nodeAddresses }: Question, backend: string): SeenSource {
  const isNodes = nodeAddresses.has(seen) || isOfNode(seen)
  if (isNode(asker.member)) return isNodes || seen === asker.address ? 'either' : { other: seen }
  if (seen === asker.address) return 'client'
  // Balanced onto itself it sees the service, or the node.
  const isHairpin = backend === asker.member
  return isNodes || (isHairpin && seen !== asker.address && isOfService(seen, target.address))
    ? 'node'
    : { other: seen }
}

function isOfNode(address: string): boolean {
  const bridges = Object.values(NODES).flatMap(({ bridge, bridge6 }) => [bridge, bridge6])
  return (
    Object.values(NODES).some(({ ipv4, ipv6 }) => address === ipv4 || address === ipv6) ||
    bridges.some((bridge) => bridge.split('/')[0] === address)
  )
}

function isOfService(address: string, target: string): boolean {
  return address === target || /^(10\.96\.|fd00:96:)/.test(address)
}
