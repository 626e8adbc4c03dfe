/** A segment that belongs to no window: what conntrack calls INVALID and does not translate. */

import assert from 'node:assert/strict'
import { openPacketSocket } from 'libbpf-ts'
import { formatSocketAddress, type Member } from '../../../cluster/index.ts'
import { tcp } from '../../../packets/build.ts'
import { clusterIP } from '../../addresses.ts'
import { at, clusterOf, eventually, instanceOf, type Scene, type Story } from './story.ts'

/** Far from whatever the two sides have agreed on. */
const SEQUENCE = 1_234_567_890
/** "Local experimental" (IEEE 802): nothing is received. */
const UNUSED_ETHER_TYPE = 0x88b5

async function serverSendsOutOfWindow(scene: Scene): Promise<undefined> {
  const client = clusterOf(scene).pod('p2')
  const server = clusterOf(scene).pod('p5')
  const group = await client.open({ to: at(scene, 'cluster-ip') })
  const [answer] = group.answers
  assert.ok(answer?.ok, 'the connection was not opened')
  const family = scene.family === 4 ? 'ip' : 'ip6'
  const frontend = clusterIP(instanceOf(scene), 0, scene.family)
  await using seen = await Counters.install(client, `story-${family}`, {
    translated: `${family} saddr ${frontend} tcp sport 80`,
    raw: `${family} saddr ${answer.server.address} tcp sport ${answer.server.port} tcp dport ${answer.peer.port}`,
    resets: `${family} daddr { ${frontend}, ${answer.server.address} } tcp sport ${answer.peer.port} tcp flags & rst == rst`,
  })
  const node = clusterOf(scene).node('n2')
  await using left = await Counters.install(node, `story-${family}`, {
    segments: `${family} saddr ${answer.server.address} tcp sequence ${SEQUENCE}`,
  })
  await inject(server, (macs) =>
    tcp({
      from: formatSocketAddress(answer.server),
      to: formatSocketAddress(answer.peer),
      flags: 'PSH ACK',
      sequence: SEQUENCE,
      acknowledged: SEQUENCE,
      data: 'boom',
      ethernet: macs,
    }),
  )
  await eventually('the segment comes to the node', async () => ((await left.read())['segments'] ?? 0) > 0)
  // Rules drop it: it may arrive translated, or not at all.
  if (scene.stage.dataplane === 'bpf') {
    await eventually('the segment arrives', async () => {
      const { translated = 0, raw = 0 } = await seen.read()
      return translated + raw > 0
    })
  }
  const [after] = await group.exchange()
  assert.ok(after?.ok, `the connection: ${after?.ok === false ? after.error : 'gone'}`)
  const { raw, resets } = await seen.read()
  assert.deepEqual({ raw, resets }, { raw: 0, resets: 0 })
  await group.close()
}

/** Counts packets in a namespace, by names, with a table of nftables of its own. */
class Counters implements AsyncDisposable {
  readonly #member: Member
  readonly #table: string

  private constructor(member: Member, table: string) {
    this.#member = member
    this.#table = table
  }

  static async install(
    member: Member,
    table: string,
    rules: Readonly<Record<string, string>>,
  ): Promise<Counters> {
    const lines = Object.entries(rules).map(([name, match]) => `${match} counter name ${name}`)
    const text = [
      `table inet ${table} {`,
      ...Object.keys(rules).map((name) => `counter ${name} { }`),
      'chain before { type filter hook prerouting priority -300;',
      ...lines,
      '}',
      'chain in { type filter hook input priority 0;',
      ...lines,
      '}',
      'chain out { type filter hook output priority 0;',
      ...lines,
      '}',
      '}',
    ].join('\n')
    await member.exec(['nft', '-f', '-'], { input: text })
    return new Counters(member, table)
  }

  async read(): Promise<Readonly<Record<string, number>>> {
    const { stdout } = await this.#member.exec([
      'nft',
      '-j',
      'list',
      'counters',
      'table',
      'inet',
      this.#table,
    ])
    const { nftables }: { nftables: readonly { counter?: { name: string; packets: number } }[] } =
      JSON.parse(stdout)
    return Object.fromEntries(
      nftables.flatMap(({ counter }) => (counter === undefined ? [] : [[counter.name, counter.packets]])),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#member.exec(['nft', 'delete', 'table', 'inet', this.#table])
  }
}

interface Macs {
  readonly source: string
  readonly destination: string
}

/** Sends a frame of a pod to its gateway. */
async function inject(pod: Member, frame: (macs: Macs) => Uint8Array): Promise<void> {
  const { stdout: linkText } = await pod.exec(['ip', '-json', 'link', 'show', 'eth0'])
  const [link]: readonly { ifindex: number; address: string }[] = JSON.parse(linkText)
  const { stdout: neighbourText } = await pod.exec(['ip', '-json', 'neigh', 'show', 'dev', 'eth0'])
  const neighbours: readonly { lladdr?: string }[] = JSON.parse(neighbourText)
  const gateway = neighbours.find(({ lladdr }) => lladdr !== undefined)
  assert.ok(link !== undefined && gateway?.lladdr !== undefined, `${pod.name} knows no neighbour`)
  using socket = openPacketSocket({
    ifindex: link.ifindex,
    etherType: UNUSED_ETHER_TYPE,
    namespace: `/run/netns/${pod.namespace}`,
    received: () => undefined,
  })
  socket.send(frame({ source: link.address, destination: gateway.lladdr }))
}

export const INVALID_STORIES: Readonly<Record<string, Story>> = {
  'CT-16': { tell: serverSendsOutOfWindow },
}
