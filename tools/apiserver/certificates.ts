/**
 * A certificate authority for tests: X.509 certificates (RFC 5280) written with nothing but Node.js, which can sign but
 * has no words for certificates.
 */

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'

/** A certificate and its key, in PEM. */
export interface Identity {
  readonly certificate: string
  readonly key: string
}

export interface Authority {
  /** The authority's own certificate, in PEM. */
  readonly certificate: string
  /** A certificate for a server under these names and addresses. */
  issueServer(names: readonly string[]): Identity
  /** A certificate for a client: to the API server, the name is a user and the organization a group. */
  issueClient(name: string, organization: string): Identity
}

/** Makes an authority that nobody knows yet. `name` tells it from others. */
export function createAuthority(name: string): Authority {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = nameOf(name)
  const keyId = createHash('sha1').update(spki(keys.publicKey)).digest()
  const issue = (to: Buffer, publicKey: KeyObject, extensions: readonly Buffer[]): string =>
    certificate({ issuer: subject, subject: to, publicKey, extensions, signer: keys.privateKey })
  const identity = (to: Buffer, extensions: readonly Buffer[]): Identity => {
    const own = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const key = own.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    return { certificate: issue(to, own.publicKey, [authorityKeyId(keyId), ...extensions]), key }
  }
  return {
    certificate: issue(subject, keys.publicKey, [
      extension('2.5.29.19', sequence(boolean(true)), true),
      extension('2.5.29.14', tagged(0x04, keyId)),
    ]),
    issueServer: (names) =>
      identity(nameOf('sluice test server'), [alternativeNames(names), usage('1.3.6.1.5.5.7.3.1')]),
    issueClient: (user, organization) => identity(nameOf(user, organization), [usage('1.3.6.1.5.5.7.3.2')]),
  }
}

interface Contents {
  readonly issuer: Buffer
  readonly subject: Buffer
  readonly publicKey: KeyObject
  readonly extensions: readonly Buffer[]
  readonly signer: KeyObject
}

const DAY_MS = 86_400_000

function certificate({ issuer, subject, publicKey, extensions, signer }: Contents): string {
  const algorithm = sequence(objectId('1.2.840.10045.4.3.2'))
  const now = Date.now()
  const toBeSigned = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    issuer,
    sequence(time(now - DAY_MS), time(now + 365 * DAY_MS)),
    subject,
    spki(publicKey),
    tagged(0xa3, sequence(...extensions)),
  )
  const signature = sign('sha256', toBeSigned, { key: signer, dsaEncoding: 'der' })
  const der = sequence(toBeSigned, algorithm, bits(signature))
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

function spki(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' })
}

function nameOf(commonName: string, organization?: string): Buffer {
  const part = (id: string, text: string): Buffer =>
    tagged(0x31, sequence(objectId(id), tagged(0x0c, Buffer.from(text))))
  return sequence(
    ...(organization === undefined ? [] : [part('2.5.4.10', organization)]),
    part('2.5.4.3', commonName),
  )
}

function alternativeNames(names: readonly string[]): Buffer {
  const entries = names.map((name) =>
    isIP(name) === 0 ? tagged(0x82, Buffer.from(name)) : tagged(0x87, addressBytes(name)),
  )
  return extension('2.5.29.17', sequence(...entries))
}

function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number))
  const [head = '', tail] = address.split('::')
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))
  const before = groups(head)
  const after = groups(tail ?? '')
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => 0)
  return Buffer.from([...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 255]))
}

function usage(purpose: string): Buffer {
  return extension('2.5.29.37', sequence(objectId(purpose)))
}

function authorityKeyId(id: Buffer): Buffer {
  return extension('2.5.29.35', sequence(tagged(0x80, id)))
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  return sequence(objectId(id), ...(critical ? [boolean(true)] : []), tagged(0x04, value))
}

// DER, ITU-T X.690.

function tagged(tag: number, contents: Buffer): Buffer {
  const { length } = contents
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), contents])
  const size = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), contents])
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts))
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes)
}

function boolean(value: boolean): Buffer {
  return tagged(0x01, Buffer.from([value ? 0xff : 0]))
}

function bits(bytes: Buffer): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([0]), bytes]))
}

function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  const septets = (value: number): number[] =>
    value < 0x80 ? [value] : [...septets(value >> 7).map((septet) => septet | 0x80), value & 0x7f]
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(septets)]))
}

/** UTCTime: years until 2049. */
function time(ms: number): Buffer {
  const text = new Date(ms)
    .toISOString()
    .replace(/^\d\d(\d\d)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d).*$/, '$1$2$3$4$5$6Z')
  return tagged(0x17, Buffer.from(text))
}
