/**
 * How much stack the programs of an object need at most, over all chains of calls: the verifier lets them share 512
 * bytes, and older kernels round each frame up to 32 bytes, newer ones to 16. So what loads here may not load there.
 */

import { readFileSync } from 'node:fs'
import { type ElfFile, type ElfSymbol, parseElf } from 'libbpf-ts'

export const STACK_SIZE = 512
const FRAME_UNIT = 32

const INSTRUCTION = 8
const FRAME_POINTER = 10
const STT_FUNC = 2
const SHT_REL = 9
const RELOCATION = 16

/** Opcodes of the instruction set (RFC 9669). */
const MOVE = 0xbf
const ADD_IMMEDIATE = 0x07
const CALL = 0x85
const LOAD_ADDRESS = 0x18
const CLASS = { load: 1, store: 2, storeRegister: 3 } as const

/** The deepest chain of calls from a program. */
export interface Depth {
  /** Bytes, each frame rounded up. */
  readonly bytes: number
  /** Names, from the program on. */
  readonly chain: readonly string[]
}

interface Body {
  readonly frame: number
  readonly callees: readonly ElfSymbol[]
}

/** By the name of the program. Throws SpecError when the file is no object. */
export function stackDepths(path: string): ReadonlyMap<string, Depth> {
  const elf = parseElf(readFileSync(path), path)
  const functions = elf.symbols.filter(({ type }) => type === STT_FUNC)
  const bodies = new Map(functions.map((each) => [each, readBody(elf, functions, each)]))
  const depthOf = (each: ElfSymbol): Depth => {
    const { frame, callees } = bodies.get(each) ?? { frame: 0, callees: [] }
    const [deepest] = callees.map(depthOf).toSorted((a, b) => b.bytes - a.bytes)
    const own = Math.ceil(Math.max(frame, 1) / FRAME_UNIT) * FRAME_UNIT
    return { bytes: own + (deepest?.bytes ?? 0), chain: [each.name, ...(deepest?.chain ?? [])] }
  }
  const programs = functions.filter(({ section }) => elf.sections[section]?.name !== '.text')
  return new Map(programs.map((each) => [each.name, depthOf(each)]))
}

function readBody(elf: ElfFile, functions: readonly ElfSymbol[], own: ElfSymbol): Body {
  const section = elf.sections[own.section]
  const bytes = section?.bytes ?? new Uint8Array()
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const relocations = relocationsOf(elf, section?.name ?? '')
  /** What registers hold an address in the frame, as offsets from its end. */
  const addresses = new Map<number, number>()
  const callees: ElfSymbol[] = []
  let frame = 0
  for (let at = own.value; at < own.value + own.size; at += INSTRUCTION) {
    const opcode = view.getUint8(at)
    const [to, from] = [view.getUint8(at + 1) & 15, view.getUint8(at + 1) >> 4]
    const immediate = view.getInt32(at + 4, true)
    const kind = opcode & 7
    const base = kind === CLASS.load ? from : to
    if (kind >= CLASS.load && kind <= CLASS.storeRegister && base === FRAME_POINTER)
      frame = Math.max(frame, -view.getInt16(at + 2, true))
    const known = opcode === ADD_IMMEDIATE ? addresses.get(to) : undefined
    if (opcode === MOVE && (from === FRAME_POINTER || addresses.has(from)))
      addresses.set(to, addresses.get(from) ?? 0)
    else if (known !== undefined) addresses.set(to, known + immediate)
    else if (kind !== CLASS.store && kind !== CLASS.storeRegister) addresses.delete(to)
    frame = Math.max(frame, -(addresses.get(to) ?? 0))
    if (opcode !== CALL && opcode !== LOAD_ADDRESS) continue
    const callee = calleeOf({ at, opcode, isLocal: from === 1, immediate }, relocations.get(at), own.section)
    const found = functions.find((each) => each.section === callee?.section && each.value === callee.value)
    if (found) callees.push(found)
  }
  return { frame, callees }
}

interface Reference {
  /** Of the instruction, bytes from the start of its section. */
  readonly at: number
  readonly opcode: number
  /** A call of a function in the object, not of a helper. */
  readonly isLocal: boolean
  readonly immediate: number
}

/** Where the function is that an instruction calls, or takes the address of for a helper to call. */
function calleeOf(
  { at, opcode, isLocal, immediate }: Reference,
  symbol: ElfSymbol | undefined,
  section: number,
): Pick<ElfSymbol, 'section' | 'value'> | undefined {
  // The distance of a call is in instructions, from the next one; that of an address in bytes.
  const distance = opcode === CALL ? (immediate + 1) * INSTRUCTION : immediate
  if (symbol === undefined) return isLocal && opcode === CALL ? { section, value: at + distance } : undefined
  return { section: symbol.section, value: symbol.value + (symbol.type === STT_FUNC ? 0 : distance) }
}

/** The symbols that instructions of a section refer to, by the offset of the instruction. */
function relocationsOf({ sections, symbols }: ElfFile, name: string): ReadonlyMap<number, ElfSymbol> {
  const table = sections.find((each) => each.type === SHT_REL && each.name === `.rel${name}`)
  const bytes = table?.bytes ?? new Uint8Array()
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found = new Map<number, ElfSymbol>()
  for (let at = 0; at < bytes.length; at += RELOCATION) {
    const symbol = symbols[view.getUint32(at + 12, true)]
    if (symbol !== undefined) found.set(Number(view.getBigUint64(at, true)), symbol)
  }
  return found
}
