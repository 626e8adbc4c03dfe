/**
 * Where functions of an object look up by memory that they were given a pointer to. For a global function verifiers
 * before kernel 6.2 refuse that as the key of a map, and as a value to write: both are copied first (`own_key`).
 */

import { readFileSync } from 'node:fs'
import { parseElf } from 'libbpf-ts'

const INSTRUCTION = 8
const FRAME_POINTER = 10
const ARGUMENTS = [1, 2, 3, 4, 5]
const STT_FUNC = 2

/** Opcodes of the instruction set (RFC 9669). */
const CALL = 0x85
const EXIT = 0x95
const JUMP = 0x05
const MOVE = 0xbf
const ADD = [0x07, 0x0f]
const LOAD = 0x79
const LOAD_IMMEDIATE = 0x18 // of two slots
const STORE = 0x7b
const WRITES_REGISTER = [0, 1, 4, 7]
const JUMPS = [5, 6]

/** Which registers of a helper of maps point to a key or a value, by the helper's number. */
const KEYS_AND_VALUES = new Map([
  [1, [2]], // bpf_map_lookup_elem
  [2, [2, 3]], // bpf_map_update_elem
  [3, [2]], // bpf_map_delete_elem
])

interface Instruction {
  readonly opcode: number
  readonly to: number
  readonly from: number
  readonly offset: number
  readonly immediate: number
}

/** Where a pointer that was an argument may be: registers by number, the stack by its offset, which is negative. */
type Places = ReadonlySet<number>

/** The global functions, by name, that look up by an argument. Throws SpecError when the file is no object. */
export function lookUpsByArgument(path: string): string[] {
  const { sections, symbols } = parseElf(readFileSync(path), path)
  const found: string[] = []
  for (const { name, type, isGlobal, section, value, size } of symbols) {
    const text = sections[section]
    if (type !== STT_FUNC || !isGlobal || text?.name !== '.text') continue
    if (looksUpByArgument(readInstructions(text.bytes.subarray(value, value + size)))) found.push(name)
  }
  return found.sort()
}

function readInstructions(bytes: Uint8Array): Instruction[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Array.from({ length: bytes.length / INSTRUCTION }, (_, i) => ({
    opcode: view.getUint8(i * INSTRUCTION),
    to: view.getUint8(i * INSTRUCTION + 1) & 15,
    from: view.getUint8(i * INSTRUCTION + 1) >> 4,
    offset: view.getInt16(i * INSTRUCTION + 2, true),
    immediate: view.getInt32(i * INSTRUCTION + 4, true),
  }))
}

/** Follows the arguments over all paths until nothing new is known of any instruction. */
function looksUpByArgument(code: readonly Instruction[]): boolean {
  const known = new Map<number, Places>()
  const open: [number, Places][] = [[0, new Set(ARGUMENTS)]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [at, places] = next
    const instruction = code[at]
    const before = known.get(at)
    const all = new Set([...(before ?? []), ...places])
    if (instruction === undefined || all.size === before?.size) continue
    known.set(at, all)
    if (usesAsKey(instruction, all)) return true
    const after = step(instruction, all)
    for (const successor of successors(instruction, at)) open.push([successor, after])
  }
  return false
}

function usesAsKey({ opcode, from, immediate }: Instruction, places: Places): boolean {
  const isHelper = opcode === CALL && from === 0
  return isHelper && (KEYS_AND_VALUES.get(immediate) ?? []).some((register) => places.has(register))
}

function step({ opcode, to, from, offset }: Instruction, before: Places): Places {
  const places = new Set(before)
  const set = (place: number, isArgument: boolean): void => {
    if (isArgument) places.add(place)
    else places.delete(place)
  }
  if (opcode === CALL) for (const register of [0, ...ARGUMENTS]) places.delete(register)
  else if (opcode === MOVE) set(to, places.has(from))
  else if (opcode === LOAD && from === FRAME_POINTER) set(to, places.has(offset))
  else if (opcode === STORE && to === FRAME_POINTER) set(offset, places.has(from))
  else if (!ADD.includes(opcode) && WRITES_REGISTER.includes(opcode & 7)) places.delete(to)
  return places
}

function successors({ opcode, offset }: Instruction, at: number): number[] {
  if (opcode === EXIT) return []
  if (opcode === JUMP) return [at + 1 + offset]
  if (opcode === LOAD_IMMEDIATE) return [at + 2]
  return opcode !== CALL && JUMPS.includes(opcode & 7) ? [at + 1, at + 1 + offset] : [at + 1]
}
