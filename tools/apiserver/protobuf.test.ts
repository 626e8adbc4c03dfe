/** What kube-apiserver v1.36 answered, in both encodings: written anew from the JSON, the protobuf is the same to the byte. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isJsonObject, type Json, type JsonObject } from './kinds.ts'
import { encodeFrame, encodeList, encodeObject, encodeUnknown } from './protobuf.ts'

const RECORDINGS = join(import.meta.dirname, '../../control/source/kubernetes/testdata')
const file = (name: string) => readFileSync(join(RECORDINGS, name))

function objectOf(value: Json | undefined): JsonObject {
  assert.ok(isJsonObject(value))
  return value
}

describe('lists', () => {
  for (const resource of ['services', 'endpointslices', 'nodes', 'servicecidrs']) {
    test(resource, () => {
      const { kind, apiVersion, metadata, items } = objectOf(
        JSON.parse(file(`${resource}.list.json`).toString()) as Json,
      )
      assert.ok(Array.isArray(items))
      const itemKind = String(kind).replace(/List$/, '')
      const encoded = items.map((item) => encodeObject({ ...objectOf(item), kind: itemKind }))
      const list = encodeUnknown(String(apiVersion), String(kind), encodeList(objectOf(metadata), encoded))
      assert.deepEqual(list.toString('latin1'), file(`${resource}.list.pb`).toString('latin1'))
    })
  }
})

function framesOf(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = []
  for (let start = 0; start < bytes.length; ) {
    const end = start + 4 + bytes.readUInt32BE(start)
    frames.push(bytes.subarray(start, end))
    start = end
  }
  return frames
}

/** The two recordings of a stream were made at different times: so many of their events are in both. */
const inBoth = { 'services.watchlist': 5, 'endpointslices.watch': 2, 'services.watch': 3 }

describe('watches', () => {
  for (const [name, count] of Object.entries(inBoth)) {
    test(name, () => {
      const events = file(`${name}.json`).toString().trimEnd().split('\n')
      const recorded = framesOf(file(`${name}.pb`)).map((frame) => frame.toString('latin1'))
      const written = events.map((line) => {
        const { type, object } = objectOf(JSON.parse(line) as Json)
        const { apiVersion, kind } = objectOf(object)
        const raw = encodeObject(objectOf(object))
        return encodeFrame(String(type), encodeUnknown(String(apiVersion), String(kind), raw)).toString(
          'latin1',
        )
      })
      assert.equal(written.filter((frame) => recorded.includes(frame)).length, count)
    })
  }
})
