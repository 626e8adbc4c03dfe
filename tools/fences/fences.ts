/**
 * The fences between the rooms of the house: who may import whom. Pure; the test beside it reads the
 * files. The table is the one in DESIGN.md.
 */

/** A source file: its path from the root of the repository, and its text. */
export interface SourceFile {
  readonly path: string
  readonly text: string
}

interface Room {
  /** Files whose path begins like this are in the room; the longest beginning decides. */
  readonly place: string
  /**
   * What they may import beside their own room: beginnings of paths, names of workspace packages, or
   * `everything`. What ends in `.ts` is that one file.
   */
  readonly mayImport: readonly string[] | 'everything'
  /** Pure: no I/O, clock, randomness or logging. */
  readonly pure?: true
}

/** Types and interfaces that the parts of the control plane meet at. */
const INTERFACES = ['control/model/types.ts', 'control/dataplane/dataplane.ts', 'control/source/source.ts']

const LOG = 'control/log.ts'
const CLOCK = 'control/clock.ts'

export const ROOMS: readonly Room[] = [
  { place: 'control/main.ts', mayImport: 'everything' },
  // The other files of the composition root: what main.ts loads for one command only.
  { place: 'control/compose/', mayImport: 'everything' },
  { place: 'control/compose/', mayImport: 'everything' },
  { place: 'control/log.ts', mayImport: [] },
  { place: 'control/clock.', mayImport: [] },
  { place: 'control/heap.ts', mayImport: [] },
  { place: 'control/model/', mayImport: [], pure: true },
  { place: 'control/layout/', mayImport: ['control/model/'], pure: true },
  { place: 'control/source/', mayImport: ['control/model/', LOG, CLOCK] },
  {
    place: 'control/node/',
    mayImport: [
      'control/model/types.ts',
      'control/model/settings.ts',
      'control/model/address.ts',
      'libbpf-ts',
      LOG,
      CLOCK,
    ],
  },
  // What both dataplanes need of netfilter; they themselves never see each other.
  {
    place: 'control/dataplane/netfilter/',
    mayImport: [
      'control/dataplane/dataplane.ts',
      'control/model/',
      'control/layout/',
      'libbpf-ts',
      LOG,
      CLOCK,
    ],
  },
  {
    place: 'control/dataplane/bpf/',
    mayImport: [
      'control/dataplane/dataplane.ts',
      'control/dataplane/netfilter/',
      'control/model/',
      'control/layout/',
      'libbpf-ts',
      LOG,
      CLOCK,
    ],
  },
  {
    place: 'control/dataplane/iptables/',
    mayImport: [
      'control/dataplane/dataplane.ts',
      'control/dataplane/netfilter/',
      'control/model/',
      'libbpf-ts',
      LOG,
      CLOCK,
    ],
  },
  { place: 'control/dataplane/', mayImport: ['control/model/', 'control/layout/', 'libbpf-ts', LOG, CLOCK] },
  { place: 'control/sync/', mayImport: [...INTERFACES, LOG, CLOCK] },
  { place: 'control/server/', mayImport: ['control/model/types.ts', LOG, CLOCK] },
  // YAML has one door.
  { place: 'control/config/', mayImport: ['control/model/', 'control/source/files/yaml.ts'], pure: true },
  { place: 'control/cli/', mayImport: ['control/model/', 'control/layout/', 'control/config/', 'libbpf-ts'] },
  { place: 'loader/', mayImport: [] },
  { place: 'bpf/', mayImport: ['libbpf-ts', 'control/layout/'] },
  { place: 'bench/', mayImport: 'everything' },
  { place: 'deploy/', mayImport: ['tools/'] },
  { place: 'test-vm/', mayImport: 'everything' },
  // YAML has one door.
  { place: 'tools/apiserver/', mayImport: ['tools/', 'control/source/files/yaml.ts'] },
  // They run the control plane against the tests' own API server.
  { place: 'tools/cases/', mayImport: 'everything' },
  { place: 'tools/soak/', mayImport: 'everything' },
  // The model is compared with the table as the kernel is.
  { place: 'tools/conformance/', mayImport: 'everything' },
  // The page of the metrics comes from their table, and the manifests from YAML.
  {
    place: 'tools/gen/',
    mayImport: [
      'tools/',
      'libbpf-ts',
      'control/server/metrics-table.ts',
      'control/cli/features.ts',
      'control/source/files/yaml.ts',
      'control/config/',
    ],
  },
  { place: 'tools/', mayImport: ['tools/', 'libbpf-ts'] },
  // Continuous integration boots other kernels too.
  { place: 'tools/test/', mayImport: ['tools/', 'test-vm/'] },
  {
    place: 'tools/packets/',
    mayImport: ['libbpf-ts', 'control/layout/', 'control/model/address.ts'],
  },
]

/** Each of these has one door: code that wants it asks the file that imports it. A part of a package may have its own. */
export const SINGLE_DOOR_PACKAGES: readonly string[] = [
  '@kubernetes/client-node',
  'cli-table3',
  'commander',
  'ipaddr.js',
  'koffi',
  'kubernetes-models',
  'pino',
  'prom-client',
  // The parser is for tools alone.
  'protobufjs',
  'protobufjs/minimal.js',
  'undici',
  'yaml',
  'zod',
]

/** The modules of Node.js that reach nothing outside the program: a pure room may use them. */
const PURE_MODULES = ['node:assert', 'node:assert/strict']

/** Names that reach the world; a pure room has no use for them. Import of any other `node:` module counts too. */
const IMPURE =
  /\b(?:Date\.now|new Date|performance\.|Math\.random|crypto\.|console\.|process\.|setTimeout|setInterval|setImmediate|fetch)\b/

/** Every module that a file imports or re-exports, types included, as written. */
export function importsOf(text: string): string[] {
  const code = withoutComments(text)
  const statements = code.matchAll(/^\s*(?:import|export)\b[^'"`;]*?\bfrom\s+['"]([^'"]+)['"]/gm)
  const bare = code.matchAll(/^\s*import\s+['"]([^'"]+)['"]/gm)
  const dynamic = code.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g)
  return [...statements, ...bare, ...dynamic].flatMap((match) => match[1] ?? [])
}

/** What breaks the rules, one line each, in the order of the files. Tests are outside the fences. */
export function violations(files: readonly SourceFile[]): string[] {
  const fenced = files.filter((file) => !file.path.endsWith('.test.ts'))
  return [...fenced.flatMap(fileViolations), ...doorViolations(fenced)]
}

function fileViolations(file: SourceFile): string[] {
  const room = roomOf(file.path)
  if (room === undefined) return [`${file.path}: in no room; give it one in tools/fences/fences.ts`]
  const found: string[] = []
  for (const specifier of importsOf(file.text)) {
    const target = specifier.startsWith('.') ? resolve(file.path, specifier) : specifier
    if (target === 'control/main.ts') found.push(`${file.path}: imports ${target}, which nothing may`)
    else if (target === 'libbpf-ts/fake' && !file.path.startsWith('tools/'))
      found.push(`${file.path}: imports ${target}, which is for tests`)
    else if (isComposition(target) && !isComposition(file.path))
      found.push(`${file.path}: may not import ${target}`)
    else if (!isAllowed(room, specifier, target)) found.push(`${file.path}: may not import ${target}`)
    if (room.pure && specifier.startsWith('node:') && !PURE_MODULES.includes(specifier)) {
      found.push(`${file.path}: is pure, and imports ${specifier}`)
    }
  }
  const impure = room.pure ? IMPURE.exec(withoutComments(file.text))?.[0] : undefined
  if (impure !== undefined) found.push(`${file.path}: is pure, and uses ${impure}`)
  if (/^(?:export )?let /m.test(file.text)) found.push(`${file.path}: has a module-level \`let\``)
  return found
}

function isComposition(path: string): boolean {
  return path === 'control/main.ts' || path.startsWith('control/compose/')
}

/** Packages from npm and Node's own modules are no matter of the rooms; our own packages are. */
function isAllowed(room: Room, specifier: string, target: string): boolean {
  if (!specifier.startsWith('.') && specifier !== 'libbpf-ts') return true
  if (room.mayImport === 'everything' || target.startsWith(room.place)) return true
  return room.mayImport.some((place) => (place.endsWith('/') ? target.startsWith(place) : target === place))
}

function doorViolations(files: readonly SourceFile[]): string[] {
  return SINGLE_DOOR_PACKAGES.flatMap((name) => {
    const doors = files.filter((file) => importsOf(file.text).some((specifier) => doorOf(specifier) === name))
    if (doors.length <= 1) return []
    return [`${name}: imported by ${doors.map((file) => file.path).join(' and ')}; one of them is enough`]
  })
}

/** The package, or the part of one, that a specifier is of. */
function doorOf(specifier: string): string | undefined {
  if (SINGLE_DOOR_PACKAGES.includes(specifier)) return specifier
  return SINGLE_DOOR_PACKAGES.find((name) => specifier.startsWith(`${name}/`))
}

function roomOf(path: string): Room | undefined {
  return ROOMS.filter((room) => path.startsWith(room.place)).sort(
    (a, b) => b.place.length - a.place.length,
  )[0]
}

/** A relative specifier as a path from the root of the repository. */
function resolve(from: string, specifier: string): string {
  const parts = from.split('/').slice(0, -1)
  for (const part of specifier.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
}
