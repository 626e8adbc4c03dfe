/** B42: tokens and certificates that change while the daemon runs. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createAuthority } from '../apiserver/index.ts'
import type { Client } from './client.ts'
import { service, slice } from './manifests.ts'
import { ProjectedFile } from './projected-file.ts'
import { eventually, Rig } from './rig.ts'

/** Only this token is good from now on, also for what is open. */
function accept(rig: Rig, token: string): void {
  rig.server.behaviour.tokens = new Set([token])
  for (const watch of rig.server.watches()) watch.end()
}

function assertSecret(client: Client): void {
  assert.ok(
    client.log.every((line) => !/token-\d/.test(line)),
    'a token is in the log',
  )
}

test('B42 tokens expire: the file is read again when it has changed', async () => {
  await using rig = await Rig.start()
  const token = new ProjectedFile(join(rig.folder, 'account'))
  token.write('token-1')
  rig.configure({ credentials: { tokenFile: token.path } })
  rig.put(service('tok', '198.19.0.10'))
  const client = await rig.syncedClient()
  for (let i = 2; i < 8; i += 1) {
    token.write(`token-${i}`)
    accept(rig, `token-${i}`)
    rig.put(slice('tok-1', 'tok', [`198.18.1.${i}`]))
    await rig.converged(client)
  }
  assertSecret(client)
})

test('B42 tokens expire: a file that is missing or empty for a while keeps the last token', async () => {
  await using rig = await Rig.start()
  const token = new ProjectedFile(join(rig.folder, 'account'))
  token.write('token-1')
  rig.configure({ credentials: { tokenFile: token.path } })
  rig.put(service('tok', '198.19.0.10'))
  const client = await rig.syncedClient()
  for (const text of [undefined, '']) {
    token.write(text)
    for (const watch of rig.server.watches()) watch.end()
    rig.put(slice('tok-1', 'tok', [`198.18.1.${text === undefined ? 1 : 2}`]))
    await rig.converged(client)
  }
  token.write('token-2')
  accept(rig, 'token-2')
  rig.put(slice('tok-1', 'tok', ['198.18.1.3']))
  await rig.converged(client)
})

test('B42 tokens expire: the bundle of authorities is read again too', async () => {
  await using rig = await Rig.start()
  const bundle = join(rig.folder, 'ca.crt')
  writeFileSync(bundle, rig.server.authority.certificate)
  rig.configure({ authority: { file: bundle } })
  rig.put(service('tok', '198.19.0.10'))
  const client = await rig.syncedClient()
  const next = createAuthority('the next one')
  writeFileSync(bundle, next.certificate)
  rig.server.useIdentity(rig.server.identity(next))
  rig.server.resetConnections()
  rig.put(slice('tok-1', 'tok', ['198.18.1.5']))
  await rig.converged(client)
})

test('B42 tokens expire: the kubeconfig itself is read again', async () => {
  await using rig = await Rig.start()
  rig.put(service('tok', '198.19.0.10'))
  const client = await rig.syncedClient()
  rig.configure({ credentials: { token: 'token-2' } })
  accept(rig, 'token-2')
  rig.put(slice('tok-1', 'tok', ['198.18.1.5']))
  await rig.converged(client)
})

test('B42 tokens expire: a program that prints them is run again', async () => {
  await using rig = await Rig.start()
  const current = join(rig.folder, 'current')
  const script = `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"2020-01-01T00:00:00Z"}}' "$(cat ${current})"`
  writeFileSync(current, 'token-1')
  rig.configure({ credentials: { exec: { command: 'sh', args: ['-c', script] } } })
  rig.put(service('tok', '198.19.0.10'))
  const client = await rig.syncedClient()
  writeFileSync(current, 'token-2')
  accept(rig, 'token-2')
  rig.put(slice('tok-1', 'tok', ['198.18.1.5']))
  await rig.converged(client)
  assertSecret(client)
})

test('B42 tokens expire: a token that is refused is told of, without it, and tried on', async () => {
  await using rig = await Rig.start()
  rig.put(service('tok', '198.19.0.10'))
  const client = await rig.syncedClient()
  accept(rig, 'token-2')
  await eventually('it is told', () =>
    client.store.problems.some(({ message }) => /401|unauthorized/i.test(message)),
  )
  assert.ok(client.problems.every((line) => !line.includes('token-1')))
  rig.server.behaviour.tokens = new Set(['token-1'])
  rig.put(slice('tok-1', 'tok', ['198.18.1.5']))
  await rig.converged(client)
  assertSecret(client)
})

test('a client certificate instead of a token', async () => {
  await using rig = await Rig.start()
  rig.configure({
    credentials: { identity: rig.server.authority.issueClient('system:kube-proxy', 'system:node-proxiers') },
  })
  rig.put(service('tok', '198.19.0.10'), slice('tok-1', 'tok', ['198.18.1.5']))
  await rig.syncedClient()
  assert.ok(rig.server.requests.every(({ authorization }) => authorization === undefined))
})
