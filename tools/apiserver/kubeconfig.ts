/** Writes kubeconfig files: how clients find the server and who they say they are. */

import { chmodSync, writeFileSync } from 'node:fs'
import type { Identity } from './certificates.ts'

/** Who the client says it is. */
export type Credentials =
  | { readonly token: string }
  /** Read by the client again and again, as the token of a service account is. */
  | { readonly tokenFile: string }
  | { readonly identity: Identity }
  /** A program that prints an `ExecCredential`. */
  | { readonly exec: { readonly command: string; readonly args: readonly string[] } }

export interface KubeconfigFacts {
  readonly server: string
  /** The authority of the server's certificate, in PEM, or the file that holds it. */
  readonly authority: string | { readonly file: string }
  readonly credentials: Credentials
  /** `http://…` or `socks5://…`, through which the server is reached. */
  readonly proxyUrl?: string
}

/** The text of a kubeconfig file. JSON, which YAML contains. */
export function kubeconfigText({ server, authority, credentials, proxyUrl }: KubeconfigFacts): string {
  const cluster = {
    server,
    ...(typeof authority === 'string'
      ? { 'certificate-authority-data': base64(authority) }
      : { 'certificate-authority': authority.file }),
    ...(proxyUrl === undefined ? {} : { 'proxy-url': proxyUrl }),
  }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'test', user: userOf(credentials) }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  }
  return `${JSON.stringify(config, undefined, 2)}\n`
}

/** Writes it for its owner's eyes only. */
export function writeKubeconfig(path: string, facts: KubeconfigFacts): void {
  writeFileSync(path, kubeconfigText(facts), { mode: 0o600 })
  chmodSync(path, 0o600)
}

function userOf(credentials: Credentials): object {
  if ('token' in credentials) return { token: credentials.token }
  if ('tokenFile' in credentials) return { tokenFile: credentials.tokenFile }
  if ('identity' in credentials) {
    const { certificate, key } = credentials.identity
    return { 'client-certificate-data': base64(certificate), 'client-key-data': base64(key) }
  }
  const { command, args } = credentials.exec
  return {
    exec: { apiVersion: 'client.authentication.k8s.io/v1', command, args, interactiveMode: 'Never' },
  }
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
