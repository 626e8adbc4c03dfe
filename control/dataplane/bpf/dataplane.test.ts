import assert from 'node:assert/strict'
import { after, suite } from 'node:test'
import { FakeKernel } from 'libbpf-ts/fake'
import { dataplaneContract } from './dataplane-contract.ts'

suite('the dataplane, on a fake of the kernel', () => {
  const kernel = new FakeKernel()
  dataplaneContract({
    kernel,
    pinFolder: (name) => {
      const path = `/sys/fs/bpf/${name}`
      return { path, [Symbol.dispose]: () => kernel.pins.remove(path) }
    },
  })
  after(() => assert.equal(kernel.openDescriptors, 0, 'descriptors were left open'))
})
