import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { loadObject, readSpec } from 'libbpf-ts'
import { compileFile, rootOnly, temporaryFolder } from '../../loader/test/kit.ts'
import { filterBit } from './filter.ts'

for (const family of [4, 6] as const) {
  test(`the programs and the control plane agree on the bit of an IPv${family} address`, rootOnly, () => {
    using folder = temporaryFolder()
    const source = path.join(import.meta.dirname, 'filter.fixture.bpf.c')
    const object = compileFile(source, path.join(folder.path, 'filter.bpf.o'), [`FAMILY=${family}`])
    const spec = readSpec(object)
    for (const map of spec.maps.values())
      if (!map.name.startsWith('.')) map.maxEntries = Math.min(map.maxEntries, 256)
    using loaded = loadObject(spec)
    const program = loaded.program('hash_address')
    for (let i = 0; i < 500; i++) {
      const address = Uint8Array.from(
        { length: family === 4 ? 4 : 16 },
        (_, byte) => (i * 37 + byte * 101 + i * byte) & 255,
      )
      assert.equal(filterBit(address), program.testRun({ context: address }).returnValue, address.join('.'))
    }
  })
}
