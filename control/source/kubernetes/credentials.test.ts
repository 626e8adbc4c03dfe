import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { CredentialReader, serverUrl } from './credentials.ts'
import { isInCluster, SERVICE_ACCOUNT_FOLDER } from './in-cluster.ts'

const forEver = new AbortController().signal

/** A folder that is gone after the test, and the kubeconfig in it. */
class Folder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'sluice-credentials-'))
  readonly kubeconfig = join(this.path, 'kubeconfig')

  write(name: string, text: string): string {
    const path = join(this.path, name)
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, text)
    return path
  }

  /** As much of a kubeconfig as is given, for one cluster and one user. */
  configure(user: object | undefined, cluster: object = {}): void {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: 'https://192.0.2.1:6443/', ...cluster } }],
      users: user === undefined ? [] : [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', ...(user === undefined ? {} : { user: 'u' }) } }],
      'current-context': 'x',
    }
    this.write('kubeconfig', JSON.stringify(config))
  }

  reader(apiServer?: string): CredentialReader {
    return new CredentialReader({ kubeconfig: this.kubeconfig, apiServer })
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

const authorization = async (reader: CredentialReader) =>
  (await reader.read(forEver)).headers['authorization']

describe('a kubeconfig', () => {
  test('with a token', async () => {
    using folder = new Folder()
    folder.configure({ token: 'secret' })
    const reader = folder.reader()
    assert.equal(reader.server, 'https://192.0.2.1:6443')
    assert.equal(await authorization(reader), 'Bearer secret')
  })

  test('with a token file beside it, which may end with a newline', async () => {
    using folder = new Folder()
    folder.write('token', 'secret\n')
    folder.configure({ tokenFile: 'token', token: 'old' })
    assert.equal(await authorization(folder.reader()), 'Bearer secret')
  })

  test('with a name and a password', async () => {
    using folder = new Folder()
    folder.configure({ username: 'me', password: 'pass' })
    assert.equal(await authorization(folder.reader()), `Basic ${btoa('me:pass')}`)
  })

  test('with certificates in files and in itself, and all that goes with TLS', async () => {
    using folder = new Folder()
    folder.write('ca.crt', 'authority')
    folder.write('me.crt', 'certificate')
    const data = btoa('key')
    folder.configure(
      { 'client-certificate': 'me.crt', 'client-key-data': data },
      { 'certificate-authority': 'ca.crt', 'tls-server-name': 'api', 'proxy-url': 'socks5://192.0.2.9:1080' },
    )
    const { tls, proxy, headers } = await folder.reader().read(forEver)
    assert.deepEqual([tls.ca, tls.cert, tls.key].map(String), ['authority', 'certificate', 'key'])
    assert.deepEqual([tls.servername, tls.rejectUnauthorized], ['api', undefined])
    assert.equal(proxy, 'socks5://192.0.2.9:1080')
    assert.deepEqual(headers, {})
    folder.write('ca.crt', 'another authority')
    assert.equal(String((await folder.reader().read(forEver)).tls.ca), 'another authority')
  })

  test('without a user: the authority counts all the same', async () => {
    using folder = new Folder()
    folder.configure(undefined, { 'certificate-authority-data': btoa('authority') })
    assert.equal(String((await folder.reader().read(forEver)).tls.ca), 'authority')
  })

  test('is read again when it has changed, and stays as it was while it makes no sense', async () => {
    using folder = new Folder()
    folder.configure({ token: 'first' })
    const reader = folder.reader()
    assert.equal(await authorization(reader), 'Bearer first')
    folder.write('kubeconfig', '{')
    assert.equal(await authorization(reader), 'Bearer first')
    folder.configure({ token: 'second' }, { server: 'https://192.0.2.2' })
    assert.equal(await authorization(reader), 'Bearer second')
    assert.equal(reader.server, 'https://192.0.2.2')
  })

  const useless: [what: string, text: string | undefined, why: RegExp][] = [
    ['that is not there', undefined, /^kubeconfig .*\/kubeconfig: ENOENT/],
    ['that is no YAML', '{', /^kubeconfig .*\/kubeconfig: /],
    ['that names no cluster', 'current-context: x', /current-context names no cluster with a server/],
  ]
  for (const [what, text, why] of useless) {
    test(`${what} is refused, with the reason`, () => {
      using folder = new Folder()
      if (text !== undefined) folder.write('kubeconfig', text)
      assert.throws(() => folder.reader(), { message: why })
    })
  }
})

describe('credentials that were refused', () => {
  test('are read anew at once, once', async () => {
    using folder = new Folder()
    folder.write('token', 'first')
    folder.configure({ tokenFile: 'token' })
    const reader = folder.reader()
    const first = await reader.read(forEver)
    folder.write('token', 'second')
    assert.equal(await authorization(reader), 'Bearer first', 'for up to a minute the file is not looked at')
    const again = await reader.read(forEver)
    reader.refused(first)
    assert.equal(await authorization(reader), 'Bearer first', 'these were not the last ones')
    reader.refused(again)
    assert.equal(await authorization(reader), 'Bearer first')
    reader.refused(await reader.read(forEver))
    assert.equal(await authorization(reader), 'Bearer second')
  })

  test('stay when there are no others', async () => {
    using folder = new Folder()
    const token = folder.write('token', 'first')
    folder.configure({ tokenFile: 'token' })
    const reader = folder.reader()
    for (const spoil of [() => writeFileSync(token, ''), () => rmSync(token)]) {
      reader.refused(await reader.read(forEver))
      spoil()
      reader.refused(await reader.read(forEver))
      assert.equal(await authorization(reader), 'Bearer first')
    }
  })

  test('that never were there are asked for until they are', async () => {
    using folder = new Folder()
    folder.configure({ tokenFile: 'token' })
    const reader = folder.reader()
    await assert.rejects(reader.read(forEver), /there are no credentials: ENOENT/)
    folder.write('token', 'late')
    assert.equal(await authorization(reader), 'Bearer late')
  })
})

describe('a program that prints credentials', () => {
  const exec = (...args: readonly string[]) => ({
    exec: { apiVersion: 'client.authentication.k8s.io/v1', command: 'sh', args: ['-c', ...args] },
  })

  test('is run once for all who ask, and again when what it printed is refused', async () => {
    using folder = new Folder()
    const log = join(folder.path, 'log')
    const credential = JSON.stringify({ kind: 'ExecCredential', status: { token: 'secret' } })
    folder.configure(exec(`echo ran >> "${log}"; echo '${credential}'`))
    const reader = folder.reader()
    const runs = () => readFileSync(log, 'utf8').split('\n').length - 1
    const all = await Promise.all([1, 2, 3].map(() => reader.read(forEver)))
    assert.deepEqual(
      all.map(({ headers }) => headers['authorization']),
      ['Bearer secret', 'Bearer secret', 'Bearer secret'],
    )
    assert.equal(runs(), 1)
    for (const credentials of all) reader.refused(credentials)
    await reader.read(forEver)
    assert.equal(runs(), 2)
  })

  test('that does not end is given up, and run anew', async () => {
    using folder = new Folder()
    const credential = JSON.stringify({ kind: 'ExecCredential', status: { token: 'secret' } })
    const began = join(folder.path, 'began')
    // It ends with the test, which takes the folder away.
    const wait = `touch "${began}"; while [ -e "${began}" ]; do sleep 0.05; done`
    folder.configure(exec(`[ -e "${began}" ] || { ${wait}; }; echo '${credential}'`))
    const reader = folder.reader()
    const abort = new AbortController()
    const asked = assert.rejects(reader.read(abort.signal), /takes too long/)
    abort.abort()
    await asked
    while (!existsSync(began)) await setImmediate()
    assert.equal((await reader.read(forEver)).headers['authorization'], 'Bearer secret')
  })
})

describe('the address of the API server', () => {
  const addresses: [text: string, url: string][] = [
    ['10.0.0.1', 'https://10.0.0.1'],
    ['10.0.0.1:6443', 'https://10.0.0.1:6443'],
    ['2001:db8::1', 'https://[2001:db8::1]'],
    ['[2001:db8::1]:6443', 'https://[2001:db8::1]:6443'],
    ['api.example.com:443', 'https://api.example.com'],
    ['https://api.example.com/k8s/clusters/c-1/', 'https://api.example.com/k8s/clusters/c-1'],
    ['http://127.0.0.1:8001', 'http://127.0.0.1:8001'],
  ]
  for (const [text, url] of addresses) {
    test(text, () => assert.equal(serverUrl(text), url))
  }

  for (const text of ['', 'ftp://10.0.0.1', 'a b', '10.0.0.1:port']) {
    test(`${JSON.stringify(text)} is none`, () =>
      assert.throws(() => serverUrl(text), /no address of an API server/))
  }

  test('that is given beats the one in the kubeconfig', async () => {
    using folder = new Folder()
    folder.configure({ token: 'secret' })
    const reader = folder.reader('[2001:db8::2]:6443')
    assert.equal(reader.server, 'https://[2001:db8::2]:6443')
    assert.equal(await authorization(reader), 'Bearer secret')
  })

  test('is enough where nobody asks who is asking', async () => {
    const reader = new CredentialReader({ kubeconfig: undefined, apiServer: 'http://127.0.0.1:8001' })
    assert.equal(reader.server, 'http://127.0.0.1:8001')
    assert.deepEqual((await reader.read(forEver)).headers, {})
  })

  test('is missing outside a pod', () => {
    assert.throws(
      () => new CredentialReader({ kubeconfig: undefined, apiServer: undefined, root: '/nonexistent' }),
      /no pod with a service account: give a kubeconfig/,
    )
  })
})

test('in a pod, the kubelet says where the server is and who is asking', async () => {
  using folder = new Folder()
  folder.write(`${SERVICE_ACCOUNT_FOLDER}/token`, 'secret')
  folder.write(`${SERVICE_ACCOUNT_FOLDER}/ca.crt`, 'authority')
  const { KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT } = process.env
  Object.assign(process.env, { KUBERNETES_SERVICE_HOST: '2001:db8::1', KUBERNETES_SERVICE_PORT: '443' })
  try {
    const options = { kubeconfig: undefined, root: folder.path }
    const reader = new CredentialReader({ ...options, apiServer: undefined })
    assert.equal(reader.server, 'https://[2001:db8::1]')
    const { headers, tls } = await reader.read(forEver)
    assert.equal(headers['authorization'], 'Bearer secret')
    assert.equal(String(tls.ca), 'authority')
    assert.equal(
      new CredentialReader({ ...options, apiServer: '192.0.2.1:6443' }).server,
      'https://192.0.2.1:6443',
    )
    assert.equal(isInCluster(process.env, '/nonexistent'), false)
  } finally {
    for (const [name, value] of Object.entries({ KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT })) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
})
