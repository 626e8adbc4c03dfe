import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { attachCgroup, type BpfLink, type BpfObject, loadObject, netnsCookie, readSpec } from 'libbpf-ts'
import { compileFile, pinFolder } from '../../../loader/test/kit.ts'
import { cgroup2Mount } from '../../../tools/cluster/mounts.ts'
import { layoutOf } from '../../layout/family.ts'
import { type Datapath, openDatapath } from './objects.ts'
import { SOCKET_PROGRAMS } from './socket-attachments.ts'
import { testSockets } from './socket-self-test.ts'
import { OBJECT_FOLDER, SMALL_MAPS } from './test-kit.ts'

describe('whether the socket programs run', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'self-test-'))
  const root = cgroup2Mount()
  const own = join(root, `slt${process.pid}-self-test`)
  const elsewhere = join(root, `slt${process.pid}-elsewhere`)
  const home = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/'
  let pins: ReturnType<typeof pinFolder>
  let datapath: Datapath
  let stranger: BpfObject
  before(() => {
    for (const folder of [own, elsewhere]) mkdirSync(folder)
    writeFileSync(join(own, 'cgroup.procs'), String(process.pid))
    pins = pinFolder('self-test')
    datapath = openDatapath({
      objectFolder: OBJECT_FOLDER,
      bpfRoot: pins.path,
      mapSizes: SMALL_MAPS,
      constants: { host_netns_cookie: netnsCookie() ?? 0n },
    })
    const source = join(import.meta.dirname, 'refusing.fixture.bpf.c')
    stranger = loadObject(readSpec(compileFile(source, join(temporary, 'refusing.bpf.o'))))
  })
  after(() => {
    stranger?.close()
    datapath?.close()
    pins?.[Symbol.dispose]()
    writeFileSync(join(root, home, 'cgroup.procs'), String(process.pid))
    for (const folder of [own, elsewhere]) rmdirSync(folder)
    rmSync(temporary, { recursive: true })
  })

  const maps = () =>
    datapath.families.map(layoutOf).map((layout) => ({
      layout,
      frontends: datapath.map(`frontends${layout.number}`),
      filter: datapath.map('filter').memory(),
    }))

  /** What comes of the test while our programs are attached to a cgroup. */
  async function outcomesOn(cgroup: string): Promise<Record<string, string>> {
    const links: BpfLink[] = []
    try {
      for (const { name, hook } of SOCKET_PROGRAMS) {
        links.push(attachCgroup({ program: datapath.program(name), cgroup, hook }))
      }
      const outcomes = await testSockets(maps())
      return Object.fromEntries(
        Array.from(outcomes, ([name, { type, ...more }]) => [name, [type, ...Object.values(more)].join(' ')]),
      )
    } finally {
      for (const link of links) link.close()
    }
  }

  test('they do for each kind of socket of a process in their cgroup', async () => {
    assert.deepEqual(await outcomesOn(own), {
      IPv4: 'served',
      'IPv4 over IPv6 sockets': 'served',
      IPv6: 'served',
    })
  })

  test('they do not for one that is elsewhere', async () => {
    assert.deepEqual(await outcomesOn(elsewhere), {
      IPv4: 'past',
      'IPv4 over IPv6 sockets': 'past',
      IPv6: 'past',
    })
  })

  test('another program on the hook that refuses is told from that', async () => {
    using _link = attachCgroup({ program: stranger.program('refuse'), cgroup: own, hook: 'connect4' })
    assert.deepEqual(await outcomesOn(own), {
      IPv4: 'refused EPERM',
      'IPv4 over IPv6 sockets': 'served',
      IPv6: 'served',
    })
  })

  test('nothing of it stays', () => {
    for (const { frontends } of maps()) assert.deepEqual([...frontends.entries()], [])
  })
})
