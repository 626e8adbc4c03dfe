import assert from 'node:assert/strict'
import { basename } from 'node:path'
import { test } from 'node:test'
import { installedCompilers, withObjects } from '../tools/packets/instructions.ts'
import { STACK_SIZE, stackDepths } from '../tools/packets/stack.ts'

for (const compiler of installedCompilers()) {
  test(`what clang ${compiler.major} makes has room on the stack, by the rules of older kernels`, () => {
    withObjects(compiler, (paths) => {
      for (const path of paths)
        for (const [program, { bytes, chain }] of stackDepths(path))
          assert.ok(bytes <= STACK_SIZE, `${basename(path)} ${program}: ${bytes} bytes, ${chain.join(' > ')}`)
    })
  })
}

test('the deepest chain goes from a program through what it calls', () => {
  const [compiler] = installedCompilers()
  assert.ok(compiler)
  withObjects(compiler, (paths) => {
    const path = paths.find((each) => each.endsWith('/datapath6.bpf.o'))
    assert.ok(path)
    const depth = stackDepths(path).get('translate_requests')
    assert.ok(depth && depth.bytes > 256 && depth.chain.length > 2, JSON.stringify(depth))
    assert.equal(depth.chain[0], 'translate_requests')
    const sweep = stackDepths(path).get('sweep')
    assert.ok(sweep?.chain.includes('sweep_flow'), 'a callback is a call')
  })
})
