/** kube-proxy's configuration file, from its text to what it says: all problems at once, and what is otherwise here. Pure. */

import { linesOf, parseYaml } from '../source/files/yaml.ts'
import { type FieldPath, type Findings, type Problem, readTable } from './fields.ts'
import { API_VERSION, KIND, KUBE_PROXY, type KubeProxyValues } from './kube-proxy.ts'
import { Refusal } from './refusal.ts'
import { brokenRules, changedNothing, shown } from './rules.ts'

/** What a file says. */
export interface Configuration {
  readonly values: KubeProxyValues
  /** What is otherwise than whoever wrote the file may think, a sentence each, for the log. */
  readonly warnings: readonly string[]
}

/**
 * Reads a file's text.
 *
 * @param file Its name, for what is said.
 * @throws Refusal that names every problem, a line each: field, what it got, what it takes
 */
export function parseConfiguration(text: string, file: string): Configuration {
  const parsed = parseYaml(text)
  if ('syntax' in parsed) {
    const { line, message } = parsed.syntax
    throw new Refusal(`--config ${file}, line ${line}: ${message}`)
  }
  const { apiVersion, kind, ...fields } = documentOf(parsed.value, file)
  if (apiVersion !== API_VERSION || kind !== KIND) {
    throw new Refusal(
      `--config ${file}: it takes ${KIND} of ${API_VERSION}, and this is ${shown(kind)} of ${shown(apiVersion)}` +
        (kind === 'ConfigMap' ? ': the configuration is in its data, under config.conf' : ''),
    )
  }
  const findings: Findings = { problems: [], unknown: [] }
  const values = readTable(KUBE_PROXY, fields, findings)
  const problems = [...findings.problems, ...brokenRules(values)]
  if (problems.length > 0) throw new Refusal(problemsText(problems, text, file))
  return { values, warnings: [...unknownTexts(findings.unknown, text, file), ...changedNothing(values)] }
}

function documentOf(value: unknown, file: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  throw new Refusal(`--config ${file}: it takes ${KIND} of ${API_VERSION}, and this is no mapping`)
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
