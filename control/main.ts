/**
 * The composition root: hands to each command what it needs, loaded when it is called, and decides how the
 * process ends.
 */

import packageJson from '../package.json' with { type: 'json' }
import { type Commands, EXIT_USAGE, runProgram } from './cli/program.ts'
import { layout } from './layout/generated.ts'

const EXIT_FAILED = 1

const VERSION = `sluice ${packageJson.version}, map layout ${layout.VERSION}, Node.js ${process.versions.node}`

const commands: Commands = {
  async readConfiguration(paths) {
    const { readConfiguration } = await import('./compose/configuration.ts')
    return readConfiguration(paths)
  },
  async run(options) {
    if (options.writeConfigTo !== undefined) {
      const { writeConfiguration } = await import('./compose/configuration.ts')
      writeConfiguration(options, options.writeConfigTo)
      return
    }
    if (options.initOnly) {
      const { initHost } = await import('./compose/init.ts')
      await initHost(options)
      return
    }
    const { runDaemon } = await import('./compose/daemon.ts')
    await runDaemon(options, VERSION)
  },
  async services(options) {
    const { openFacts } = await import('./compose/facts.ts')
    const { servicesText } = await import('./cli/services.ts')
    using facts = openFacts(options.bpfRoot)
    print(servicesText(facts.services(), options, options.output))
  },
  async backends(options) {
    const { openFacts } = await import('./compose/facts.ts')
    const { backendsText } = await import('./cli/backends.ts')
    using facts = openFacts(options.bpfRoot)
    print(backendsText(facts.backends(), options))
  },
  async flows(options) {
    const { openFacts } = await import('./compose/facts.ts')
    const { flowsText } = await import('./cli/flows.ts')
    using facts = openFacts(options.bpfRoot)
    print(flowsText(facts.flows(), options))
  },
  async probe(options) {
    const { probeNode } = await import('./compose/probe.ts')
    const { canRun, probeText } = await import('./cli/probe.ts')
    const report = await probeNode(options)
    print(probeText(report, options.output))
    if (!canRun(report)) process.exitCode = EXIT_USAGE
  },
  async cleanup(options) {
    const { cleanUp } = await import('./compose/cleanup.ts')
    const { cleanupText } = await import('./cli/cleanup.ts')
    print(cleanupText(await cleanUp(options)))
  },
}

function print(text: string): void {
  process.stdout.write(text)
}

/** The last words of a process that cannot go on. */
function die(error: unknown): never {
  process.stderr.write(`sluice: ${lastWords(error)}\n`)
  process.exit(codeOf(error) === 'BPF_LIBRARY' ? EXIT_USAGE : EXIT_FAILED)
}

/** An error with a code was foreseen, and its message says it all; for any other one the place matters. */
function lastWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return codeOf(error) === undefined ? (error.stack ?? error.message) : error.message
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

process.on('uncaughtException', die)
process.on('unhandledRejection', die)
// `sluice flows | head` has seen enough: no error of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) =>
  error.code === 'EPIPE' ? process.exit() : die(error),
)

try {
  const code = await runProgram(process.argv.slice(2), VERSION, commands)
  process.exitCode ||= code
} catch (error) {
  die(error)
}
