import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  encodeAttributes,
  NetlinkError,
  type NetlinkFamily,
  type NetlinkRequest,
  parseAttributes,
} from 'libbpf-ts'
import { removeIpvs } from './ipvs.ts'

const SERVERS = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> C0A8000A:192B      Masq    1      0          0
UDP  0A60000A:0035 rr
`
const FAMILY_OF_IPVS = 27

/** A node of this content; what was asked of it, in words. */
function nodeWith({ device = false, servers = '', sets = [] as readonly string[] }) {
  const asked: string[] = []
  const answer = (family: NetlinkFamily, { type, payload = new Uint8Array() }: NetlinkRequest) => {
    const text = (at: number, attribute: number) =>
      Buffer.from(parseAttributes(payload, at).get(attribute) ?? [])
        .toString()
        .replace('\0', '')
    if (family === 'route') {
      asked.push(`${type === 17 ? 'delete' : 'get'} link ${text(16, 3)}`)
      if (!device) throw new NetlinkError('link', 19)
      return []
    }
    if (family === 'generic') {
      if (type === FAMILY_OF_IPVS) asked.push(`IPVS command ${payload[0]}`)
      const id = Uint8Array.of(FAMILY_OF_IPVS, 0)
      return [Buffer.concat([Uint8Array.of(1, 2, 0, 0), encodeAttributes([[1, id]])])]
    }
    const command = type & 0xff
    asked.push(command === 3 ? `destroy ${text(4, 2)}` : `set command ${command}`)
    return sets.map((name) =>
      Buffer.concat([Uint8Array.of(2, 0, 0, 0), encodeAttributes([[2, Buffer.from(`${name}\0`)]])]),
    )
  }
  const edges = {
    exists: (path: string) => (path.startsWith('/proc') ? servers !== '' : sets.length > 0),
    read: () => servers,
    open: (family: NetlinkFamily) => ({
      request: async (request: NetlinkRequest) =>
        answer(family, request).map((payload) => ({ type: 0, flags: 0, payload })),
      close: () => undefined,
    }),
  }
  return { asked, edges }
}

test('of a node that has none of it nothing is asked but for the device', async () => {
  const { asked, edges } = nodeWith({})
  assert.deepEqual(await removeIpvs(edges), [])
  assert.deepEqual(asked, ['get link kube-ipvs0'])
})

test('virtual servers, the device, and the sets that are kube-proxy’s', async () => {
  const sets = ['KUBE-CLUSTER-IP', 'KUBE-6-LOOP-BACK', 'calico-masq']
  const { asked, edges } = nodeWith({ device: true, servers: SERVERS, sets })
  assert.deepEqual(await removeIpvs(edges), [
    'IPVS virtual servers: 2',
    'device kube-ipvs0',
    'ipset KUBE-6-LOOP-BACK',
    'ipset KUBE-CLUSTER-IP',
  ])
  assert.deepEqual(asked, [
    'get link kube-ipvs0',
    'IPVS command 17',
    'delete link kube-ipvs0',
    'set command 7',
    'destroy KUBE-6-LOOP-BACK',
    'destroy KUBE-CLUSTER-IP',
  ])
})

test('virtual servers without the device are somebody else’s', async () => {
  const { asked, edges } = nodeWith({ servers: SERVERS })
  assert.deepEqual(await removeIpvs(edges), [])
  assert.deepEqual(asked, ['get link kube-ipvs0'])
})
