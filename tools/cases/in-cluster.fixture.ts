/**
 * A client with nothing but what a pod has: two variables and the folder of its service account. Runs in a mount namespace
 * of its own, started by the test beside it. Exit code 0 if all was well.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { Client } from './client.ts'
import { service, slice } from './manifests.ts'
import { ProjectedFile } from './projected-file.ts'
import { Rig } from './rig.ts'

const ACCOUNT = '/run/secrets/kubernetes.io/serviceaccount'

mkdirSync('/run/secrets/kubernetes.io', { recursive: true })
const token = new ProjectedFile(ACCOUNT)
await using rig = await Rig.start()
token.write('token-1')
writeFileSync(`${ACCOUNT}/ca.crt`, rig.server.authority.certificate)
process.env['KUBERNETES_SERVICE_HOST'] = '127.0.0.1'
process.env['KUBERNETES_SERVICE_PORT'] = String(rig.server.port)
rig.put(service('tok', '198.19.0.10'))
await using client = new Client({})
await rig.converged(client)
for (let i = 2; i < 6; i += 1) {
  token.write(`token-${i}`)
  rig.server.behaviour.tokens = new Set([`token-${i}`])
  for (const watch of rig.server.watches()) watch.end()
  rig.put(slice('tok-1', 'tok', [`198.18.1.${i}`]))
  await rig.converged(client)
}
