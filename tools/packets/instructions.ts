/**
 * How many instructions each program and function of the BPF objects has, by the major version of clang, beside what
 * bpf/instructions.json says of it: a change of the C code shows what it costs.
 *
 * `node tools/packets/instructions.ts` compares, `… --update` writes, for every clang that is installed.
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseElf } from 'libbpf-ts'

const ROOT = join(import.meta.dirname, '../..')
export const RECORD = join(ROOT, 'bpf/instructions.json')
export const UPDATE_COMMAND = 'node tools/packets/instructions.ts --update'

/** Bytes of a BPF instruction. */
const INSTRUCTION = 8
const STT_FUNC = 2

/** Instructions of one object: the programs, and the functions that they call and share. */
export interface ObjectCounts {
  readonly programs: Readonly<Record<string, number>>
  readonly functions: Readonly<Record<string, number>>
}

/** By the object's name. */
export type Counts = Readonly<Record<string, ObjectCounts>>

/** A compiler of this machine. */
export interface Compiler {
  readonly command: string
  readonly major: number
}

/** Every major version of clang that is installed, under the first of its names. */
export function installedCompilers(): Compiler[] {
  const found = new Map<number, Compiler>()
  const numbered = Array.from({ length: 30 }, (_, i) => `clang-${i + 14}`)
  for (const command of ['clang', ...numbered]) {
    const { stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' })
    const major = Number(/clang version (\d+)/.exec(stdout ?? '')?.[1])
    if (major > 0 && !found.has(major)) found.set(major, { command, major })
  }
  return [...found.values()].sort((a, b) => a.major - b.major)
}

/** Builds the objects, but not the plain ones, in a folder of their own, which is gone when `use` returns. Throws when make fails. */
export function withObjects<T>(compiler: Compiler, use: (paths: readonly string[]) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-objects-'))
  try {
    const folders = ['-C', join(ROOT, 'bpf'), `BUILD=${folder}`]
    const args = ['--silent', ...folders, `CLANG=${compiler.command}`, 'objects']
    const { status, stderr, error } = spawnSync('make', args, { encoding: 'utf8' })
    if (error !== undefined) throw error
    if (status !== 0) throw new Error(`${compiler.command} does not compile bpf/:\n${stderr}`)
    return use(readdirSync(folder).map((name) => join(folder, name)))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Throws SpecError when the file is no object. */
export function countInstructions(path: string): ObjectCounts {
  const { sections, symbols } = parseElf(readFileSync(path), path)
  const programs: Record<string, number> = {}
  const functions: Record<string, number> = {}
  for (const { name, type, section, size } of symbols.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (type !== STT_FUNC) continue
    const into = sections[section]?.name === '.text' ? functions : programs
    into[name] = size / INSTRUCTION
  }
  return { programs, functions }
}

/** What a compiler makes of the sources as they are now. Throws as `withObjects`. */
export function currentCounts(compiler: Compiler): Counts {
  return withObjects(compiler, (paths) =>
    Object.fromEntries(paths.map((path) => [basename(path, '.bpf.o'), countInstructions(path)])),
  )
}

/** What is on record, by the major version of clang. */
export function recordedCounts(): Record<string, Counts> {
  return JSON.parse(readFileSync(RECORD, 'utf8'))
}

/** One line for each number that differs, `datapath4 ingress: 39, was 37`. */
export function differences(was: Counts, is: Counts): string[] {
  const flat = (counts: Counts): Map<string, number> =>
    new Map(
      Object.entries(counts).flatMap(([object, { programs, functions }]) =>
        Object.entries({ ...programs, ...functions }).map(([name, count]) => [`${object} ${name}`, count]),
      ),
    )
  const [before, after] = [flat(was), flat(is)]
  const names = [...new Set([...before.keys(), ...after.keys()])].sort()
  return names
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => `${name}: ${after.get(name) ?? 'gone'}, was ${before.get(name) ?? 'not there'}`)
}

function main(update: boolean): void {
  const record = recordedCounts()
  const compilers = installedCompilers()
  for (const compiler of compilers) {
    const counts = currentCounts(compiler)
    const changed = differences(record[compiler.major] ?? {}, counts)
    console.log(`clang ${compiler.major}: ${changed.length === 0 ? 'as recorded' : ''}`)
    for (const line of changed) console.log(`  ${line}`)
    record[compiler.major] = counts
    if (changed.length > 0 && !update) process.exitCode = 1
  }
  for (const major of Object.keys(record))
    if (!compilers.some((compiler) => String(compiler.major) === major))
      console.log(`clang ${major}: not installed here, so what is recorded of it may be out of date`)
  if (update) writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`)
  else if (process.exitCode === 1) console.log(`Write the new numbers with: ${UPDATE_COMMAND}`)
}

if (import.meta.main) main(process.argv.includes('--update'))
