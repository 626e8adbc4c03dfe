/** Other people's commands (nft, iptables), run once and read whole. */

import { spawn } from 'node:child_process'

/** What a command did. */
export interface CommandResult {
  /** The exit code; undefined when there is no such command on the path. */
  readonly code: number | undefined
  readonly stdout: string
  /** What it complained of, or why it could not be run to its end. */
  readonly stderr: string
}

export interface CommandOptions {
  /** After so long it is killed; `TIMEOUT_MS` when left out. */
  readonly timeoutMs?: number
  /** Variables that it gets beside those of this process. */
  readonly environment?: Readonly<Record<string, string>>
}

/** Runs a command, with `input` as its standard input. Never rejects: everything that can happen is in the result. */
export type RunCommand = (
  argv: readonly string[],
  input?: string,
  options?: CommandOptions,
) => Promise<CommandResult>

/** Most of these commands take milliseconds; one that hangs (a lock nobody gives back) must not hang its caller. */
const TIMEOUT_MS = 20_000

/** The exit code of a shell for a command that was ended by a signal is above this. */
const ENDED_BY_SIGNAL = 128

export const runCommand: RunCommand = (argv, input = '', { timeoutMs = TIMEOUT_MS, environment } = {}) =>
  new Promise((resolve) => {
    const [file = '', ...args] = argv
    const child = spawn(file, args, {
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
      // Their messages are read by people and by no code, but a locale must not change numbers either.
      env: { ...process.env, LC_ALL: 'C', ...environment },
    })
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
    // A command that ends before it has read its input closes the pipe; its exit code tells the rest.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
    child.once('error', (error) => {
      resolve({ code: undefined, stdout: '', stderr: error.message })
    })
    child.once('close', (code, signal) => {
      const text = Buffer.concat(stderr).toString().trim()
      resolve({
        code: code ?? ENDED_BY_SIGNAL,
        stdout: Buffer.concat(stdout).toString(),
        stderr: signal === null ? text : `${text} (ended by ${signal})`.trim(),
      })
    })
  })

/** The command as a person would type it, and what it said: the middle of an error message. */
export function describeFailure(argv: readonly string[], result: CommandResult): string {
  const what =
    result.code === undefined ? 'could not be run' : `ended with exit code ${result.code.toString()}`
  return `\`${argv.join(' ')}\` ${what}${result.stderr === '' ? '' : `: ${result.stderr}`}`
}
