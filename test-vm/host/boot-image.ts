/**
 * A kernel as Debian ships it, taken apart. Pure.
 *
 * A bzImage is a small program that unpacks the kernel proper, an ELF file, and jumps into it. QEMU starts that ELF file
 * directly (PVH, `CONFIG_PVH`), which saves the emulated machine seconds of unpacking.
 */

/** Offsets in the setup header of a bzImage (`Documentation/arch/x86/boot.rst`). */
const SETUP_SECTORS = 0x1f1
const SIGNATURE = 0x202
const PAYLOAD_OFFSET = 0x248
const PAYLOAD_LENGTH = 0x24c
const SECTOR = 512

export type Compression = 'gzip' | 'lz4' | 'xz' | 'zstd'

const MAGIC: readonly { readonly compression: Compression; readonly bytes: readonly number[] }[] = [
  { compression: 'gzip', bytes: [0x1f, 0x8b] },
  { compression: 'lz4', bytes: [0x02, 0x21, 0x4c, 0x18] },
  { compression: 'xz', bytes: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00] },
  { compression: 'zstd', bytes: [0x28, 0xb5, 0x2f, 0xfd] },
]

/**
 * The packed kernel in a bzImage, and how it is packed. The kernel's build appends the unpacked size, four bytes, which
 * no unpacker but its own expects: they are left out. Throws Error for anything else than a bzImage.
 */
export function payloadOf(image: Buffer): { readonly compression: Compression; readonly payload: Buffer } {
  if (image.length < PAYLOAD_LENGTH + 4 || image.toString('latin1', SIGNATURE, SIGNATURE + 4) !== 'HdrS') {
    throw new Error('not a bzImage: it has no setup header')
  }
  const start = (image.readUInt8(SETUP_SECTORS) + 1) * SECTOR + image.readUInt32LE(PAYLOAD_OFFSET)
  const end = start + image.readUInt32LE(PAYLOAD_LENGTH)
  if (end > image.length) throw new Error('the bzImage is cut short')
  const whole = image.subarray(start, end)
  const found = MAGIC.find(({ bytes }) => bytes.every((byte, i) => whole[i] === byte))
  if (found === undefined) {
    throw new Error(`the kernel is packed in an unknown way: it begins ${whole.toString('hex', 0, 6)}`)
  }
  const { compression } = found
  return { compression, payload: whole.subarray(0, whole.length - 4) }
}

/** `PT_LOAD`, and the parts of an ELF64 header and its program headers that are read here. */
const PT_LOAD = 1
const ELF = { programHeaders: 32, headerSize: 54, headerCount: 56 }
const SEGMENT = { type: 0, offset: 8, virtual: 16, fileSize: 32 }

const ENDBR64 = Buffer.from([0xf3, 0x0f, 0x1e, 0xfa])
const CALL = 0xe8
const CALL_LENGTH = 5
/** `mov $-38, %rax; ret`: ENOSYS, what the kernel answers for a system call that it does not have. */
const RETURN_ENOSYS = Buffer.from('48c7c0daffffffc3', 'hex')

/**
 * The kernel, with the function at this address doing nothing but to return ENOSYS: for a program that makes the system
 * call it is a kernel built without it. The call of `__fentry__` at its head is kept, ftrace wants to find it.
 */
export function withoutSystemCall(kernel: Buffer, address: bigint): Buffer {
  const patched = Buffer.from(kernel)
  let at = offsetOf(patched, address)
  if (patched.subarray(at, at + ENDBR64.length).equals(ENDBR64)) at += ENDBR64.length
  if (patched[at] === CALL) at += CALL_LENGTH
  RETURN_ENOSYS.copy(patched, at)
  return patched
}

/** Where in the file the byte is that the kernel has at this virtual address. */
function offsetOf(kernel: Buffer, address: bigint): number {
  const first = Number(kernel.readBigUInt64LE(ELF.programHeaders))
  const size = kernel.readUInt16LE(ELF.headerSize)
  const count = kernel.readUInt16LE(ELF.headerCount)
  for (let at = first; at < first + count * size; at += size) {
    const virtual = kernel.readBigUInt64LE(at + SEGMENT.virtual)
    const length = kernel.readBigUInt64LE(at + SEGMENT.fileSize)
    if (kernel.readUInt32LE(at + SEGMENT.type) !== PT_LOAD) continue
    if (address < virtual || address >= virtual + length) continue
    return Number(kernel.readBigUInt64LE(at + SEGMENT.offset) + address - virtual)
  }
  throw new Error(`no segment of the kernel has the address ${address.toString(16)}`)
}

const USUAL_LOADER = '/lib64/ld-linux-x86-64.so.2\0'

/** A program that is started by another dynamic loader (`PT_INTERP`) than the usual one; its path may not be longer. */
export function withLoader(program: Buffer, loader: string): Buffer {
  const at = program.indexOf(USUAL_LOADER, 0, 'latin1')
  if (at < 0) throw new Error('the program names no dynamic loader')
  if (loader.length >= USUAL_LOADER.length) throw new Error(`${loader}: there is no room for so long a path`)
  const patched = Buffer.from(program)
  patched.write(loader.padEnd(USUAL_LOADER.length, '\0'), at, 'latin1')
  return patched
}
