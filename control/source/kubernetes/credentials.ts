/**
 * Which API server, and how to show it who is asking: from a kubeconfig, or from what the kubelet gives to a pod. The
 * only file that knows the Kubernetes client, which reads kubeconfigs and token files and runs exec plugins.
 */

import { readFileSync, statSync } from 'node:fs'
import type { RequestOptions } from 'node:https'
import { dirname, isAbsolute, join } from 'node:path'
import { type Cluster, KubeConfig } from '@kubernetes/client-node'
import { parseYaml } from '../files/yaml.ts'
import { isInCluster } from './in-cluster.ts'

/** Where to look. */
export interface CredentialOptions {
  /** A file; undefined: that of the pod this process runs in. */
  readonly kubeconfig: string | undefined
  /** Instead of the server that is named there: a URL, or host and port. */
  readonly apiServer: string | undefined
  /** Before the paths of what the kubelet gives; for tests. */
  readonly root?: string
}

/** What to show the server with the next request. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>
  readonly tls: TlsCredentials
  /** `http:`, `https:` or `socks5:`. */
  readonly proxy: string | undefined
}

export interface TlsCredentials {
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly servername?: string
  readonly rejectUnauthorized?: boolean
}

/** A configuration as it was read, and the file it came from as it was then. */
interface Loaded {
  readonly config: KubeConfig
  readonly fingerprint: string
}

export class CredentialReader {
  readonly #options: CredentialOptions
  #loaded: Loaded
  /** What was shown last, and the file it came from as it was then. */
  #last: { readonly fingerprint: string; readonly credentials: Credentials } | undefined
  #reading: Promise<Credentials> | undefined

  /** Throws Error for a configuration that names no server, with what to change. */
  constructor(options: CredentialOptions) {
    this.#options = options
    this.#loaded = load(options)
  }

  /** `https://192.0.2.1:6443`, without a slash at its end. */
  get server(): string {
    return clusterOf(this.#loaded.config).server.replace(/\/+$/, '')
  }

  /**
   * Asked for each request, so that what is renewed on disk is used: tokens within a minute, certificates and the
   * kubeconfig at once. What has been removed or emptied stays as it was. Rejects while there is nothing at all, and
   * when the signal is aborted before a plugin has come to its end: the next one to ask runs another.
   */
  async read(signal: AbortSignal): Promise<Credentials> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const tooLong = Promise.withResolvers<never>()
    const giveUp = () => {
      this.#reading = undefined
      tooLong.reject(new Error('there are no credentials: the program that prints them takes too long'))
    }
    signal.addEventListener('abort', giveUp, { once: true })
    try {
      return await Promise.race([this.#reading, tooLong.promise])
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
  }

  /** The server did not take these. They are read anew, exec plugins run again, if that has not been done already. */
  refused(credentials: Credentials): void {
    if (this.#last?.credentials === credentials) this.#reload()
  }

  async #read(): Promise<Credentials> {
    if (fingerprintOf(this.#options.kubeconfig) !== this.#loaded.fingerprint) this.#reload()
    const { config, fingerprint } = this.#loaded
    const before = this.#last?.fingerprint === fingerprint ? this.#last.credentials : undefined
    try {
      const credentials = await present(config)
      const hasLostToken =
        before?.headers['authorization'] !== undefined && credentials.headers['authorization'] === undefined
      if (hasLostToken) return before
      this.#last = { fingerprint, credentials }
      return credentials
    } catch (error) {
      if (before !== undefined) return before
      throw new Error(`there are no credentials: ${messageOf(error)}`, { cause: error })
    }
  }

  /** A configuration that cannot be read at present, half written perhaps, stays as it was. */
  #reload(): void {
    try {
      this.#loaded = load(this.#options)
    } catch {
      // The next request tries again: the fingerprint still differs.
    }
  }
}

/** `10.0.0.1`, `[2001:db8::1]:6443`, `https://api.example.com`: as a URL. Throws Error for what is none of these. */
export function serverUrl(text: string): string {
  const bare = /^[0-9a-f:.]*:[0-9a-f:.]*:[0-9a-f:.]*$/i.test(text) ? `[${text}]` : text
  const url = URL.parse(bare.includes('://') ? bare : `https://${bare}`)
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.hostname === '') {
    throw new Error(`${JSON.stringify(text)} is no address of an API server; give a URL, or host and port`)
  }
  return url.href.replace(/\/+$/, '')
}

function load({ kubeconfig, apiServer, root = '' }: CredentialOptions): Loaded {
  const config = new KubeConfig()
  const fingerprint = fingerprintOf(kubeconfig)
  if (kubeconfig !== undefined) loadFile(config, kubeconfig)
  else if (isInCluster(process.env, root)) config.loadFromCluster(root)
  else if (apiServer !== undefined) {
    config.loadFromClusterAndUser(
      { name: 'api-server', server: apiServer, skipTLSVerify: false },
      { name: '' },
    )
  } else {
    throw new Error(
      'this is no pod with a service account: give a kubeconfig, or the address of the API server',
    )
  }
  const cluster = clusterOf(config)
  const server = serverUrl(apiServer ?? cluster.server)
  // Of a context without a user the client would not even look at the authority.
  if (config.getCurrentUser() === null) {
    config.users = [...config.users, { name: NOBODY }]
    config.contexts = config.contexts.map((context) =>
      context.name === config.currentContext ? { ...context, user: NOBODY } : context,
    )
  }
  // The client refuses to speak without TLS unless it is told that there is nothing to verify, which there is not.
  const skipTLSVerify = cluster.skipTLSVerify || server.startsWith('http:')
  config.clusters = config.clusters.map((each) =>
    each.name === cluster.name ? { ...each, server, skipTLSVerify } : each,
  )
  return { config, fingerprint }
}

/** The user of a context that has none. */
const NOBODY = 'nobody'

function loadFile(config: KubeConfig, path: string): void {
  try {
    const text = readFileSync(path, 'utf8')
    config.loadFromString(text)
    config.makePathsAbsolute(dirname(path))
    useTokenFiles(config, text, dirname(path))
    clusterOf(config)
  } catch (error) {
    throw new Error(`kubeconfig ${path}: ${messageOf(error)}`, { cause: error })
  }
}

/** The client overlooks `tokenFile`, which is what kube-proxy's own kubeconfig has. It goes before a token. */
function useTokenFiles(config: KubeConfig, text: string, folder: string): void {
  const parsed = parseYaml(text)
  const users: unknown = 'value' in parsed ? (parsed.value as { users?: unknown } | null)?.users : undefined
  if (!Array.isArray(users)) return
  const files = new Map(
    users.map((user: { name?: unknown; user?: { tokenFile?: unknown } } | null) => [
      user?.name,
      user?.user?.tokenFile,
    ]),
  )
  config.users = config.users.map((user) => {
    const file = files.get(user.name)
    if (typeof file !== 'string' || file === '') return user
    const { token: _, ...rest } = user
    const tokenFile = isAbsolute(file) ? file : join(folder, file)
    return { ...rest, authProvider: { name: 'tokenFile', config: { tokenFile } } }
  })
}

function clusterOf(config: KubeConfig): Cluster {
  const cluster = config.getCurrentCluster()
  if (cluster === null || !cluster.server) {
    throw new Error('its current-context names no cluster with a server')
  }
  return cluster
}

async function present(config: KubeConfig): Promise<Credentials> {
  const options: RequestOptions = {}
  await config.applyToHTTPSOptions(options)
  const { ca, cert, key, servername, rejectUnauthorized, auth } = options
  const given = Object.entries(options.headers ?? {}).map(([name, value]) => [
    name.toLowerCase(),
    // A file may end with a newline, which no header can hold.
    String(value).trim(),
  ])
  const basic = auth ? [['authorization', `Basic ${Buffer.from(auth).toString('base64')}`]] : []
  return {
    headers: Object.fromEntries([...basic, ...given]),
    tls: {
      ...plain('ca', ca),
      ...plain('cert', cert),
      ...plain('key', key),
      ...(servername === undefined ? {} : { servername }),
      ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
    },
    proxy: clusterOf(config).proxyUrl || undefined,
  }
}

function plain<K extends 'ca' | 'cert' | 'key'>(
  name: K,
  value: unknown,
): { readonly [P in K]?: string | Buffer } {
  return typeof value === 'string' || Buffer.isBuffer(value)
    ? ({ [name]: value } as { readonly [P in K]?: string | Buffer })
    : {}
}

/** Changes with the file, also if another one is put in its place. */
function fingerprintOf(path: string | undefined): string {
  if (path === undefined) return ''
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stats === undefined ? '' : [stats.dev, stats.ino, stats.size, stats.mtimeNs].join(' ')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
