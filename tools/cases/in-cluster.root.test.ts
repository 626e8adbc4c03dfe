import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

test('B42 tokens expire: in a pod, with the token of a service account', async () => {
  const fixture = join(import.meta.dirname, 'in-cluster.fixture.ts')
  const script = 'mount -t tmpfs tmpfs /run && exec "$@"'
  await promisify(execFile)('unshare', ['--mount', 'sh', '-c', script, 'sh', process.execPath, fixture])
})
