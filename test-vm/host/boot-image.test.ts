import assert from 'node:assert/strict'
import { test } from 'node:test'
import { payloadOf, withLoader, withoutSystemCall } from './boot-image.ts'

const XZ = Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 1, 2, 3])
const SIZE = Buffer.from([9, 9, 9, 9])

/** A bzImage of one set-up sector beside the first, whose payload lies at an offset. */
function bzImage(payload: Buffer): Buffer {
  const image = Buffer.alloc(4096)
  image.write('HdrS', 0x202, 'latin1')
  image.writeUInt8(1, 0x1f1)
  image.writeUInt32LE(64, 0x248)
  image.writeUInt32LE(payload.length, 0x24c)
  payload.copy(image, 1024 + 64)
  return image
}

test('the packed kernel lies behind the set-up sectors, without the size that the build appends', () => {
  assert.deepEqual(payloadOf(bzImage(Buffer.concat([XZ, SIZE]))), { compression: 'xz', payload: XZ })
  const zstd = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 7])
  assert.equal(payloadOf(bzImage(Buffer.concat([zstd, SIZE]))).compression, 'zstd')
})

test('what is no kernel image is refused, by what is wrong with it', () => {
  assert.throws(() => payloadOf(Buffer.alloc(4096)), /not a bzImage/)
  assert.throws(() => payloadOf(Buffer.alloc(16)), /not a bzImage/)
  assert.throws(
    () => payloadOf(bzImage(Buffer.alloc(100))),
    /packed in an unknown way: it begins 000000000000/,
  )
  const long = bzImage(Buffer.concat([XZ, SIZE]))
  long.writeUInt32LE(1 << 20, 0x24c)
  assert.throws(() => payloadOf(long), /cut short/)
})

const ADDRESS = 0xffffffff81000000n
const FILE_OFFSET = 0x200
const RETURN_ENOSYS = '48c7c0daffffffc3'

/** An ELF file of one loaded segment, with a function at its 16th byte. */
function kernelWith(code: readonly number[]): Buffer {
  const file = Buffer.alloc(0x400, 0x90)
  file.writeBigUInt64LE(64n, 32)
  file.writeUInt16LE(56, 54)
  file.writeUInt16LE(2, 56)
  file.writeUInt32LE(4, 64) // PT_NOTE
  file.writeUInt32LE(1, 120)
  file.writeBigUInt64LE(BigInt(FILE_OFFSET), 128)
  file.writeBigUInt64LE(ADDRESS, 136)
  file.writeBigUInt64LE(0x100n, 152)
  Buffer.from(code).copy(file, FILE_OFFSET + 16)
  return file
}

test('a system call returns ENOSYS at once, behind what ftrace and indirect branches need at its head', () => {
  const rows: [string, number[], number][] = [
    ['a plain function', [0x55], 0],
    ['a call of __fentry__', [0xe8, 1, 2, 3, 4, 0x55], 5],
    ['endbr64 and the call', [0xf3, 0x0f, 0x1e, 0xfa, 0xe8, 1, 2, 3, 4, 0x55], 9],
  ]
  for (const [name, code, skipped] of rows) {
    const before = kernelWith(code)
    const patched = withoutSystemCall(before, ADDRESS + 16n)
    const at = FILE_OFFSET + 16
    assert.equal(patched.toString('hex', at + skipped, at + skipped + 8), RETURN_ENOSYS, name)
    assert.deepEqual([...patched.subarray(at, at + skipped)], code.slice(0, skipped), name)
    assert.equal(patched.length, before.length)
    assert.equal(before[at + skipped], 0x55, 'the kernel itself is left as it is')
  }
  assert.throws(
    () => withoutSystemCall(kernelWith([0x55]), 0x1000n),
    /no segment of the kernel has the address 1000/,
  )
})

test('a program finds its loader where it is told, if the path is short enough', () => {
  const program = Buffer.from('ELF…/lib64/ld-linux-x86-64.so.2\0rest', 'latin1')
  const patched = withLoader(program, './ld.so').toString('latin1')
  assert.match(patched, /ELF.\.\/ld\.so\0{21}rest/s)
  assert.equal(patched.length, program.length)
  assert.throws(() => withLoader(program, '/a/much/longer/path/to/the/loader'), /no room/)
  assert.throws(() => withLoader(Buffer.from('static'), './ld.so'), /names no dynamic loader/)
})
