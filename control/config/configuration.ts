/**
 * Configuration files, from their texts to what they say: kube-proxy's configuration and our own, each a document of some
 * file. All problems at once, and what is otherwise here. Pure.
 */

import { linesOf, parseYaml } from '../source/files/yaml.ts'
import { type FieldPath, type Findings, type Problem, readTable, type Table, type Values } from './fields.ts'
import { API_VERSION, KIND, KUBE_PROXY, type KubeProxyValues } from './kube-proxy.ts'
import type { ConfigFile } from './options.ts'
import { Refusal } from './refusal.ts'
import { brokenRules, changedNothing, shown } from './rules.ts'
import { SLUICE, SLUICE_API_VERSION, SLUICE_KIND, type SluiceValues } from './sluice.ts'

/** What files say. */
export interface Configuration {
  /** Undefined: no file has kube-proxy's configuration, and its flags say it. */
  readonly kubeProxy: KubeProxyValues | undefined
  readonly sluice: SluiceValues | undefined
  /** What is otherwise than whoever wrote the files may think, a sentence each, for the log. */
  readonly warnings: readonly string[]
  readonly files: readonly ConfigFile[]
}

/** A document in its file. Lines before it are blank, so that lines are counted from the beginning of the file. */
interface Document {
  readonly path: string
  readonly text: string
  readonly value: Readonly<Record<string, unknown>>
}

const TAKES = `it takes ${KIND} of ${API_VERSION} and ${SLUICE_KIND} of ${SLUICE_API_VERSION}`

/**
 * Reads the files' texts.
 *
 * @throws Refusal that names every problem, a line each: file, line, field, what it got, what it takes
 */
export function parseConfiguration(files: readonly ConfigFile[]): Configuration {
  const told: string[] = []
  const warnings: string[] = []
  const documents = files.flatMap((file) => documentsOf(file, told))
  const one = <T extends Table>(
    table: T,
    [apiVersion, kind]: readonly [string, string],
    rules: (values: Values<T>) => readonly Problem[],
  ): Values<T> | undefined => {
    const all = documents.filter(({ value }) => value['apiVersion'] === apiVersion && value['kind'] === kind)
    const [document, second] = all
    if (second !== undefined)
      told.push(`--config ${second.path}: there is a ${kind} already, and it takes one`)
    return document && readDocument(table, document, rules, { told, warnings })
  }
  const kubeProxy = one(KUBE_PROXY, [API_VERSION, KIND], brokenRules)
  const sluice = one(SLUICE, [SLUICE_API_VERSION, SLUICE_KIND], () => [])
  if (told.length > 0) throw new Refusal(told.join('\n'))
  if (kubeProxy !== undefined) warnings.push(...changedNothing(kubeProxy))
  return { kubeProxy, sluice, warnings, files }
}

/** The documents of a file. Those that are nobody's are told. */
function documentsOf({ path, text }: ConfigFile, told: string[]): readonly Document[] {
  const documents: Document[] = []
  const parts = partsOf(text)
  for (const part of parts) {
    const parsed = parseYaml(part)
    if ('syntax' in parsed) {
      told.push(`--config ${path}, line ${parsed.syntax.line}: ${parsed.syntax.message}`)
      continue
    }
    const { value } = parsed
    if (value === null && parts.length > 1) continue
    const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value)
    const document: Document = { path, text: part, value: isMapping ? { ...value } : {} }
    const why = whyNobodys(document, isMapping)
    if (why === undefined) documents.push(document)
    else told.push(`--config ${path}: ${TAKES}, and ${why}`)
  }
  if (documents.length + told.length === 0) told.push(`--config ${path}: ${TAKES}, and this is empty`)
  return documents
}

function partsOf(text: string): readonly string[] {
  let lines = 0
  return text.split(/^---(?=\s|$)/m).map((part) => {
    const padded = '\n'.repeat(lines) + part
    lines += part.split('\n').length - 1
    return padded
  })
}

function whyNobodys({ value }: Document, isMapping: boolean): string | undefined {
  if (!isMapping) return 'this is no mapping'
  const { apiVersion, kind } = value
  if (apiVersion === API_VERSION && kind === KIND) return undefined
  if (apiVersion === SLUICE_API_VERSION && kind === SLUICE_KIND) return undefined
  const hint = kind === 'ConfigMap' ? ': the configuration is in its data, under config.conf' : ''
  return `this is ${shown(kind)} of ${shown(apiVersion)}${hint}`
}

function readDocument<T extends Table>(
  table: T,
  { path, text, value }: Document,
  rules: (values: Values<T>) => readonly Problem[],
  { told, warnings }: { readonly told: string[]; readonly warnings: string[] },
): Values<T> {
  const { apiVersion: _version, kind: _kind, ...fields } = value
  const findings: Findings = { problems: [], unknown: [] }
  const values = readTable(table, fields, findings)
  const problems = [...findings.problems, ...rules(values)]
  if (problems.length > 0) told.push(problemsText(problems, text, path))
  warnings.push(...unknownTexts(findings.unknown, text, path))
  return values
}

function problemsText(problems: readonly Problem[], text: string, file: string): string {
  const lines = linesOf(
    text,
    problems.map(({ path }) => path),
  )
  const told = problems
    .map(({ path, got, takes }, index) => ({ line: lines[index] ?? 1, name: path.join('.'), got, takes }))
    .sort((left, right) => left.line - right.line)
    .map(({ line, name, got, takes }) => `  line ${line}, ${name}: got ${shown(got)}. ${takes}`)
  const count =
    problems.length === 1 ? 'a field that cannot be used' : `${problems.length} fields that cannot be used`
  return [`--config ${file} has ${count}:`, ...told].join('\n')
}

/** Fields that were there once; kube-proxy's manifests still have them. */
const FORMER: Readonly<Record<string, string>> = {
  udpIdleTimeout: 'it was of the userspace mode; see conntrack.udpTimeout',
  resourceContainer: 'no resource container is made',
}

function unknownTexts(paths: readonly FieldPath[], text: string, file: string): readonly string[] {
  const lines = linesOf(text, paths)
  return paths.map((path, index) => {
    const name = path.join('.')
    const why = FORMER[name] ?? 'there is no such field'
    return `--config ${file}, line ${lines[index]}, ${name}: it changes nothing: ${why}`
  })
}
