/**
 * The command line: which commands and options there are, what each is for, and what an exit code means.
 * The only file that knows commander. What the commands do is handed in.
 */

import { hostname } from 'node:os'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { Configuration } from '../config/configuration.ts'
import { type DevicePatterns, devicePatterns } from '../config/device-options.ts'
import { isFieldFlag, withDashes } from '../config/kube-proxy-flags.ts'
import { DEFAULT_NODE_PORT_RANGE, parseNodePortRange } from '../config/node-port-options.ts'
import {
  ATTACH_OPTIONS,
  DEFAULT_BPF_ROOT,
  DEFAULT_NETNS_DIR,
  parseMapSize,
  parseNodeName,
  parsePath,
  parseSource,
  parseVerbosity,
  type RunOptions,
  type SourceTexts,
  sourceOf,
} from '../config/options.ts'
import { PROXY_MODES, parseProxyMode } from '../config/proxy-mode.ts'
import { Refusal } from '../config/refusal.ts'
import { type ReadRunOptions, runOptions, sourceTexts } from '../config/run-options.ts'
import { SOCKET_ANNOTATION, SOCKET_MODES } from '../model/pod-sockets.ts'
import { SCHEDULERS } from '../model/schedulers.ts'
import { errorText, HINTS } from './hints.ts'
import {
  DEVICE_SPECS,
  KUBE_PROXY_SPECS,
  NODE_PORT_SPECS,
  type OptionSpec,
  SERVER_SPECS,
  TIMEOUT_SPECS,
  TRAFFIC_SPECS,
} from './option-specs.ts'
import {
  type BackendOptions,
  type CleanupOptions,
  FAMILIES,
  type FactOptions,
  type FlowOptions,
  factOptions,
  PROTOCOLS,
  type ProbeOptions,
  parseClient,
  parseFamily,
  parseProtocol,
} from './options.ts'

/** What each command does. An error that is thrown is the caller's of `runProgram`. */
export interface Commands {
  /** What the files of `--config` say. Throws a `Refusal` with everything that is wrong with them. */
  readConfiguration(paths: readonly string[]): Promise<Configuration>
  run(options: RunOptions): Promise<void>
  services(options: FactOptions): Promise<void>
  backends(options: BackendOptions): Promise<void>
  flows(options: FlowOptions): Promise<void>
  probe(options: ProbeOptions): Promise<void>
  cleanup(options: CleanupOptions): Promise<void>
}

/** Where the words go; the default is the process's own. */
export interface Terminal {
  out(text: string): void
  err(text: string): void
}

export const EXIT_OK = 0
/** The caller must change something: an option, a privilege, the kernel. */
export const EXIT_USAGE = 2

/**
 * Reads the arguments (without the names of Node.js and script) and runs the command.
 *
 * @param version What `--version` prints.
 * @returns The exit code: 0; or 2 for what cannot be done like this, which is reported: arguments that make no sense, a
 *   `Refusal` of the command. What else a command throws is thrown.
 */
export async function runProgram(
  args: readonly string[],
  version: string,
  commands: Commands,
  terminal: Terminal = {
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
  },
): Promise<number> {
  try {
    const program = createProgram(version, commands, terminal)
    await program.parseAsync(args.length === 0 ? ['--help'] : args.map(withDashes), { from: 'user' })
    return EXIT_OK
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE
    if (!(error instanceof Refusal)) throw error
    terminal.err(`sluice: ${error.message}\n`)
    return EXIT_USAGE
  }
}

function createProgram(version: string, commands: Commands, terminal: Terminal): Command {
  const program = new Command('sluice')
    .description('Kubernetes Services balanced by eBPF, beside any CNI: a replacement for kube-proxy.')
    .version(version, '-V, --version', 'print the version')
    .helpCommand('help [command]', 'explain a command')
    .addHelpText('after', HINTS)
    .configureOutput({
      writeOut: terminal.out,
      writeErr: terminal.err,
      outputError: (text, write) => write(errorText(text)),
    })
    .exitOverride()
  addRun(program, commands)
  addServices(program, commands)
  addBackends(program, commands)
  addFlows(program, commands)
  addProbe(program, commands)
  addCleanup(program, commands)
  return program
}

function addRun(program: Command, commands: Commands): void {
  const command = subcommand(
    program,
    'run',
    'run the daemon: keep the kernel as the Services say',
    'sluice run --source files:examples --node-name n1\n  sluice run --kubeconfig /etc/kubernetes/kubelet.conf',
  )
  addSourceOptions(command, 'where the objects come from')
    .addOption(nodeNameOption())
    .addOption(
      option(
        '--proxy-mode <MODE>',
        `how packets are balanced: ${PROXY_MODES.join(', ')}; auto is bpf where the kernel can, else iptables`,
        parseProxyMode,
      ).default('auto'),
    )
    .addOption(
      option(
        '--scheduler <NAME>',
        'how a backend is picked where the Service does not say (default: round-robin, with iptables random)',
      ).choices(SCHEDULERS),
    )
    .addOption(option('--ipvs-scheduler <NAME>', 'the same for --proxy-mode ipvs, by the names of IPVS'))
    .addOption(bpfRootOption())
    .addOption(cgroupRootOption())
    .addOption(
      option('--attach <HOW>', 'how programs are attached to devices; auto: by tcx where the kernel has it')
        .choices(ATTACH_OPTIONS)
        .default('auto')
        .env('SLUICE_ATTACH'),
    )
    .addOption(
      option(
        '--socket-load-balancing <WHOSE>',
        `whose sockets are served: host, the node's own and of pods that say ${SOCKET_ANNOTATION}: "true"; all, but of pods that say "false"`,
      )
        .choices(SOCKET_MODES)
        .default('host'),
    )
    .addOption(
      option('--netns-dir <DIR>', "folder of the files of pods' network namespaces", parsePath).default(
        DEFAULT_NETNS_DIR,
      ),
    )
    .addOption(
      option(
        '--map-size <NAME=N>',
        'entries of a map, once for each map to size; those of services grow when they are full',
        (text, sizes) => parseMapSize(text, sizes as Record<string, number>),
      ).default({}, "the object's own sizes"),
    )
  for (const specs of [DEVICE_SPECS, TRAFFIC_SPECS, NODE_PORT_SPECS]) addOptions(command, specs)
  command.addOption(nodePortRangeOption())
  for (const specs of [TIMEOUT_SPECS, SERVER_SPECS, KUBE_PROXY_SPECS]) addOptions(command, specs)
  command
    .addOption(
      option('-v, --v <N>', 'how much to log: 0 to 2 info, 3 debug, 5 trace', parseVerbosity).default(0),
    )
    .addOption(option('--logging-format <FORMAT>', 'how to log').choices(['text', 'json']).default('text'))
    .addHelpText(
      'after',
      '\nTraffic flows on when the daemon stops or dies; the next one adopts what is in the kernel.',
    )
    .action((read: ReadRunCommand, itself: Command) => runAs(read, itself, commands))
}

/** As commander hands them over. Texts that nothing has read are under the names of their flags. */
interface ReadRunCommand extends ReadRunOptions {
  readonly config?: readonly string[]
  readonly cleanup?: boolean
  readonly [name: string]: unknown
}

/** What kube-proxy's flags make of the daemon: another command, with a file, or by themselves. */
async function runAs(read: ReadRunCommand, itself: Command, commands: Commands): Promise<void> {
  if (read.cleanup) {
    await commands.cleanup({ bpfRoot: read.bpfRoot, drain: false, kubeProxy: false })
    return
  }
  const given = itself.options.filter(
    (each) => each.long && ['cli', 'env'].includes(itself.getOptionValueSource(each.attributeName()) ?? ''),
  )
  const texts = Object.fromEntries(
    given.flatMap((each) => {
      const value = read[each.attributeName()]
      return isFieldFlag(each.long ?? '') && typeof value === 'string' ? [[each.long, value]] : []
    }),
  )
  const flags = given.flatMap(({ long }) => long ?? [])
  const { config = [] } = read
  const configuration = config.length === 0 ? undefined : await commands.readConfiguration(config)
  const all = {
    read,
    flags,
    texts,
    isInPod: isInPod(),
    ...(configuration === undefined ? {} : { configuration }),
  }
  await commands.run(runOptions(all))
}

function addOptions(command: Command, specs: readonly OptionSpec[]): Command {
  for (const { flags, description, parse, choices, normal, normalText, preset, isHidden } of specs) {
    const made = option(flags, description, parse)
    if (choices !== undefined) made.choices(choices)
    if (normal !== undefined) made.default(normal, normalText)
    if (preset !== undefined) made.preset(preset)
    command.addOption(made.hideHelp(isHidden))
  }
  return command
}

function nodePortRangeOption(): Option {
  return option(
    '--service-node-port-range <FIRST-LAST>',
    "the API server's range of node ports",
    parseNodePortRange,
  ).default(DEFAULT_NODE_PORT_RANGE, '30000-32767')
}

function addServices(program: Command, commands: Commands): void {
  const command = subcommand(
    program,
    'services',
    'list the services in the kernel: frontends, and the backends that new connections get',
    'sluice services --service default/web',
  )
  addFactOptions(command).action((options: FactOptions) => commands.services(factOptions(options)))
}

function addBackends(program: Command, commands: Commands): void {
  const command = subcommand(
    program,
    'backends',
    'list the backends in the kernel, also those that only finish what they have',
    'sluice backends --state draining -o json',
  )
  addFactOptions(command)
    .addOption(
      option('--state <STATE>', 'only backends in this state').choices(['active', 'draining', 'gone']),
    )
    .action((options: BackendOptions) => commands.backends({ ...factOptions(options), state: options.state }))
}

function addFlows(program: Command, commands: Commands): void {
  const command = subcommand(
    program,
    'flows',
    'list the connections being translated: client, frontend, backend, state',
    'sluice flows --protocol udp --client 10.244.1.2',
  )
  addFactOptions(command)
    .addOption(
      option('--state <STATE>', 'only flows in this state').choices([
        'new',
        'replied',
        'established',
        'closing',
        'collided',
        'held',
      ]),
    )
    .addOption(option('--client <ADDRESS>', 'only flows of this client', parseClient))
    .action((options: FlowOptions) =>
      commands.flows({ ...factOptions(options), state: options.state, client: options.client }),
    )
}

function addProbe(program: Command, commands: Commands): void {
  const command = subcommand(
    program,
    'probe',
    'show what this kernel and node have, what is missing, what would be used and why',
    'sluice probe -o json',
  )
  addOptions(addSourceOptions(command, "where the Node object is, for the node's InternalIP"), DEVICE_SPECS)
    .addOption(nodeNameOption())
    .addOption(bpfRootOption())
    .addOption(cgroupRootOption())
    .addOption(nodePortRangeOption())
    .addOption(outputOption())
    .addHelpText('after', '\nChanges nothing. Exit code 2 when `sluice run` would refuse to start.')
    .action(({ nodeName, bpfRoot, cgroupRoot, output, ...texts }: ReadProbeOptions) =>
      commands.probe({
        nodeName,
        bpfRoot,
        cgroupRoot,
        output,
        source: sourceOf(sourceTexts(texts), isInPod()),
        nodePortRange: texts.serviceNodePortRange,
        devicePatterns: devicePatterns(texts),
      }),
    )
}

function addCleanup(program: Command, commands: Commands): void {
  subcommand(
    program,
    'cleanup',
    'remove every trace from the kernel and name each: links, pins, rules, mounts',
    'sluice cleanup --drain',
  )
    .addOption(bpfRootOption())
    .addOption(
      option(
        '--drain',
        'hand the connections that are being translated over to netfilter first, instead of ending them',
      ).default(false),
    )
    .addOption(
      option('--kube-proxy', "remove what kube-proxy left in any of its modes, and nothing of Sluice's")
        .default(false)
        .conflicts('drain'),
    )
    .addHelpText(
      'after',
      '\nStop whose traces these are first: the daemon, or kube-proxy. Running it again is harmless.',
    )
    .action(({ bpfRoot, drain, kubeProxy }: CleanupOptions) =>
      commands.cleanup({ bpfRoot, drain, kubeProxy }),
    )
}

function subcommand(program: Command, name: string, summary: string, example: string): Command {
  return program
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
    .allowExcessArguments(false)
    .helpOption('-h, --help', 'explain this command')
    .addHelpText('after', `\nExample:\n  ${example}`)
}

/** An option whose parser may throw a `Refusal`. */
function option(
  flags: string,
  description: string,
  parse?: (text: string, previous: unknown) => unknown,
): Option {
  const made = new Option(flags, description)
  if (parse === undefined) return made
  return made.argParser((text: string, previous: unknown) => {
    try {
      return parse(text, previous)
    } catch (error) {
      if (error instanceof Refusal) throw new InvalidArgumentError(error.message)
      throw error
    }
  })
}

function addSourceOptions(command: Command, use: string): Command {
  return command
    .addOption(
      option(
        '--source <KIND>',
        `${use}: files:DIR, a folder of YAML manifests, or kubernetes, which is the default in a pod`,
        parseSource,
      ),
    )
    .addOption(
      option('--kubeconfig <FILE>', 'how to reach the API server (default in a pod: its service account)'),
    )
    .addOption(
      option(
        '--api-server <ADDRESS>',
        'URL or HOST:PORT of the API server, instead of the one named elsewhere',
      ),
    )
}

const bpfRootOption = () =>
  option('--bpf-root <DIR>', 'folder of the pins', parsePath).default(DEFAULT_BPF_ROOT).env('SLUICE_BPF_ROOT')

const cgroupRootOption = () =>
  option(
    '--cgroup-root <DIR>',
    'cgroup v2 folder whose processes are served at their sockets (default: the root of the mount)',
    parsePath,
  )

const nodeNameOption = () =>
  option('--node-name <NAME>', 'name of the Node object of this node', parseNodeName).default(
    hostname().toLowerCase(),
    "the host's name",
  )

const outputOption = () =>
  option('-o, --output <FORMAT>', 'how to print').choices(['table', 'json']).default('table')

function addFactOptions(command: Command): Command {
  return command
    .addOption(
      option('--service <NAMESPACE/NAME>', 'only this service; a name alone means in every namespace'),
    )
    .addOption(option('--protocol <PROTOCOL>', `only this protocol: ${PROTOCOLS.join(', ')}`, parseProtocol))
    .addOption(option('--family <FAMILY>', `only this IP family: ${FAMILIES.join(', ')}`, parseFamily))
    .addOption(outputOption())
    .addOption(bpfRootOption())
}

/** As commander hands them over: by the long names of the options. */
interface ReadProbeOptions
  extends Omit<ProbeOptions, 'source' | 'nodePortRange' | 'devicePatterns'>,
    SourceTexts,
    DevicePatterns,
    Pick<ReadRunOptions, 'serviceNodePortRange'> {}

/** The kubelet names the API server to every container. */
function isInPod(): boolean {
  return Boolean(process.env['KUBERNETES_SERVICE_HOST'])
}
