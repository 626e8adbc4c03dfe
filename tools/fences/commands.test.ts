/** The command lines in the pages: whoever types them gets what the page says, and not a usage message. */

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { HINTS } from '../../control/cli/hints.ts'
import { type Commands, EXIT_OK, runProgram } from '../../control/cli/program.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { pages, ROOT } from './pages.ts'

interface CommandLine {
  /** Of a page. */
  readonly place: string
  readonly words: readonly string[]
}

const WORD = /'([^']*)'|"([^"]*)"|\S+/g

const wordsOf = (line: string): string[] =>
  [...line.matchAll(WORD)].map(([word, single, double]) => single ?? double ?? word)

/**
 * What a page says to type: lines of its consoles behind a prompt, up to the explanation, which stands two spaces off; and
 * what it has in backquotes.
 */
function commandLines(text: string): string[] {
  const joined = text.replaceAll(/ \\\n +/g, ' ')
  const consoles = [...joined.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, lines = '']) =>
    [...lines.matchAll(/^[#$] (.*?)(?: {2,}.*)?$/gm)].map(([, line = '']) => line),
  )
  const inline = [...joined.replaceAll(/```[\s\S]*?```/g, '').matchAll(/`([^`]+)`/g)]
  return [...consoles, ...inline.map(([, line = '']) => line.replaceAll(/\s+/g, ' '))]
}

const LINES: readonly CommandLine[] = pages().flatMap((page) =>
  commandLines(readFileSync(page, 'utf8')).map((line) => ({
    place: `${relative(ROOT, page)}: ${line}`,
    words: wordsOf(line),
  })),
)

/** The arguments of `sluice` in it: by itself, by npx, or in a pod by kubectl. */
function argumentsOf(words: readonly string[]): readonly string[] | undefined {
  const start = words[0] === 'kubectl' ? words.indexOf('--') + 1 : words[0] === 'npx' ? 1 : 0
  return words[start] === 'sluice' ? words.slice(start + 1) : undefined
}

/** What is wrong with arguments, as the program says it; nothing otherwise. */
async function complaintOf(args: readonly string[]): Promise<string> {
  // A page need not say at each mention where the objects are; a file that is given may.
  const isBare = args[0] === 'run' && !args.some((arg) => /^--(source|kubeconfig)\b/.test(arg))
  const whole = args.map((arg) => (arg === 'COMMAND' ? 'run' : arg))
  const done = async () => {}
  const commands: Commands = {
    readConfiguration: async () => ({ kubeProxy: undefined, sluice: undefined, warnings: [], files: [] }),
    ...{ run: done, services: done, backends: done, flows: done, probe: done, cleanup: done },
  }
  let said = ''
  const terminal = {
    out: () => {},
    err: (text: string) => {
      said += text
    },
  }
  const code = await runProgram(
    isBare ? [...whole, '--source', 'kubernetes'] : whole,
    'v',
    commands,
    terminal,
  )
  return code === EXIT_OK ? '' : said || `exit code ${code}`
}

test('mistakes in command lines are found', async () => {
  const page =
    'say `sluice drop`, or:\n```console\n# sluice flows --sort age    oldest first\n$ kubectl exec POD -- sluice top\n```'
  const complaints = await Promise.all(
    commandLines(page).map(async (line) => await complaintOf(argumentsOf(wordsOf(line)) ?? [])),
  )
  assert.match(complaints.join(''), /--sort.*\n.*'top'[\s\S]*'drop'/)
  assert.ok(complaints.every((complaint) => complaint !== ''))
})

test('each `sluice …` of the pages is taken by the program', async () => {
  let count = 0
  for (const { place, words } of LINES) {
    const args = argumentsOf(words)
    if (args === undefined || args.length === 0) continue
    count++
    assert.equal(await complaintOf(args), '', place)
  }
  assert.ok(count > 30, `${count} were found`)
})

test('each `sluice …` of the help for those who know other tools, too', async () => {
  const lines = [...HINTS.matchAll(/ {2}(sluice .+)$/gm)].flatMap(([, line = '']) => line.split(', '))
  assert.ok(lines.length > 5)
  for (const line of lines) assert.equal(await complaintOf(wordsOf(line).slice(1)), '', line)
})

test('each `npm …` of the pages is a script', () => {
  const scripts = Object.keys(packageJson.scripts)
  const lacking = LINES.filter(({ words: [program, first = '', name = ''] }) => {
    if (program !== 'npm') return false
    return !(first === 'run' ? scripts.includes(name) : ['ci', ...scripts].includes(first))
  })
  assert.deepEqual(
    lacking.map(({ place }) => place),
    [],
  )
})

test('what kubectl, docker, helm and node are given of this repository is there', () => {
  const lacking = LINES.filter(({ words: [program = ''] }) => /^(kubectl|docker|helm|node)$/.test(program))
    .flatMap(({ place, words }) => words.map((word) => ({ place, word })))
    .filter(({ word }) => /^(deploy|tools|bench|test-vm|examples|control|bpf|loader)\//.test(word))
    .filter(({ word }) => !existsSync(join(ROOT, word)))
  assert.deepEqual(
    lacking.map(({ place }) => place),
    [],
  )
})
