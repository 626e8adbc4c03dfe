/** What is installed without Helm, from the Helm chart and its defaults. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseYaml } from '../../control/source/files/yaml.ts'
import { render, type Value } from './template.ts'

const CHART = path.resolve(import.meta.dirname, '../../deploy/helm/sluice')
const NAMESPACE = 'kube-system'

const INTRODUCTION = `# Written by \`npm run gen\` from deploy/helm/sluice.
#
# Sluice on every Linux node of a cluster, in the place of kube-proxy.
#
#   1. Build the image and bring it to the nodes:  docker build -f deploy/Dockerfile -t IMAGE .
#   2. Tell it where the API server is (see "The way to the API server" below).
#   3. kubectl apply -f deploy/install.yaml
#   4. When its pods run, take kube-proxy away:    kubectl -n kube-system delete daemonset kube-proxy
#
# Everything here is in kube-system and called sluice, as kube-proxy's is called kube-proxy. What else there is to choose is
# in deploy/kustomize/overlays and in the values of the chart.

`

/** One document. Throws when it is none. */
export function yamlOf(text: string): Value {
  const parsed = parseYaml(text)
  if ('syntax' in parsed) throw new Error(`line ${parsed.syntax.line}: ${parsed.syntax.message}`)
  return parsed.value as Value
}

/** `values` over the chart's own, as Helm merges them: objects by their members, all else as a whole. */
export function renderChart(values: Value = {}, template = 'sluice.yaml'): string {
  const chart: Value = yamlOf(readFileSync(path.join(CHART, 'Chart.yaml'), 'utf8'))
  const text = readFileSync(path.join(CHART, 'templates', template), 'utf8')
  return render(text, chartData(merged(defaultValues(), values), chart))
}

/** What a template of the chart is about. */
export function chartData(values: Value, chart: Value): Value {
  const { appVersion = null } = isObject(chart) ? chart : {}
  return { Values: values, Chart: { AppVersion: appVersion }, Release: { Namespace: NAMESPACE } }
}

export function defaultValues(): Value {
  return yamlOf(readFileSync(path.join(CHART, 'values.yaml'), 'utf8'))
}

function isObject(value: Value): value is { readonly [name: string]: Value } {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

export function merged(under: Value, over: Value): Value {
  if (!isObject(under) || !isObject(over)) return over
  const members = Object.entries(over).map(([name, value]) => [name, merged(under[name] ?? null, value)])
  return { ...under, ...Object.fromEntries(members) }
}

/** deploy/install.yaml */
export function emitInstall(): string {
  const text = renderChart()
  const [, image = ''] = /^ *image: (.+)$/m.exec(text) ?? []
  return INTRODUCTION.replace('IMAGE', image) + text
}

/** deploy/kustomize/base/sluice.yaml: kustomize reads nothing outside the folder. */
export function emitBase(): string {
  return `# Written by \`npm run gen\` from deploy/helm/sluice.\n\n${renderChart()}`
}
