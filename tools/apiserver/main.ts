/**
 * The API server by itself, with the objects of a folder of manifests, which may be edited while it runs:
 *
 *     node tools/apiserver/main.ts --manifests examples --kubeconfig /tmp/kubeconfig
 *
 * Says `listening at URL` when it does, and ends with SIGTERM or SIGINT.
 */

import { parseArgs } from 'node:util'
import { ApiServer, writeKubeconfig } from './index.ts'
import { ManifestFolder } from './manifests.ts'

const { values } = parseArgs({
  options: {
    manifests: { type: 'string' },
    kubeconfig: { type: 'string' },
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '6443' },
  },
})
const { manifests, kubeconfig, host, port } = values
if (manifests === undefined || kubeconfig === undefined) {
  console.error('usage: main.ts --manifests FOLDER --kubeconfig FILE [--host ADDRESS] [--port N]')
  process.exit(2)
}
const server = await ApiServer.start({ host, port: Number(port) })
const folder = new ManifestFolder(manifests, server.objects, (message) => console.error(message))
writeKubeconfig(kubeconfig, {
  server: server.url,
  authority: server.authority.certificate,
  credentials: { token: 'token-1' },
})
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    folder[Symbol.dispose]()
    void server[Symbol.asyncDispose]()
  })
}
console.log(`listening at ${server.url}`)
