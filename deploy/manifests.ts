/** The manifests that this folder comes to, each way of installing, as values. For the tests. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderChart, yamlOf } from '../tools/gen/deploy.ts'
import type { Value } from '../tools/gen/template.ts'

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

export interface Container {
  readonly name: string
  readonly image: string
  readonly command?: readonly string[]
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string; readonly value?: string }[]
  readonly securityContext: {
    readonly capabilities: { readonly drop: readonly string[]; readonly add: readonly string[] }
    readonly allowPrivilegeEscalation: boolean
    readonly readOnlyRootFilesystem: boolean
    readonly seccompProfile: { readonly type: string }
  }
  readonly volumeMounts: readonly {
    readonly name: string
    readonly mountPath: string
    readonly readOnly?: boolean
  }[]
}

export interface PodSpec {
  readonly serviceAccountName: string
  readonly initContainers: readonly Container[]
  readonly containers: readonly [Container]
  readonly volumes: readonly {
    readonly name: string
    readonly hostPath: { readonly path: string; readonly type: string }
  }[]
}

/** Overlays of `kustomize/overlays`, with the values of the chart that come to the same. */
export const OVERLAYS: Readonly<Record<string, Value>> = {
  iptables: { proxyMode: 'iptables' },
  kubeadm: { kubeProxyConfigMap: 'kube-proxy' },
  'labelled-nodes': { nodeSelector: { 'sluice.dev/proxy': 'sluice' } },
  'old-kernels': { oldKernels: true },
  'pod-sockets': { podSockets: true },
}

/** The documents of a text. */
export function documentsOf(text: string): Manifest[] {
  return text.split(/^---$/m).map((document) => yamlOf(document) as unknown as Manifest)
}

export function fromInstall(): Manifest[] {
  return documentsOf(readFileSync(join(import.meta.dirname, 'install.yaml'), 'utf8'))
}

export function fromChart(values: Value = {}): Manifest[] {
  return documentsOf(renderChart(values))
}

/** What the daemon set among them says of its pods. */
export function podSpecOf(manifests: readonly Manifest[]): PodSpec {
  const found = manifests.find(({ kind }) => kind === 'DaemonSet')
  assert.ok(found !== undefined, 'there is no DaemonSet')
  return (found as Manifest & { spec: { template: { spec: PodSpec } } }).spec.template.spec
}

/** kubectl has kustomize and Go's templates in it, and asks no API server for them. */
export const kubectlIsHere = spawnSync('kubectl', ['version', '--client']).status === 0
export const WITHOUT_KUBECTL = 'kubectl is not installed: nothing else here has kustomize and Go templates'

function kubectl(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('kubectl', args, { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

export function fromKustomize(place: string): Manifest[] {
  return documentsOf(kubectl('kustomize', join(import.meta.dirname, 'kustomize', place)))
}

/** A template as Go's own text/template renders it. */
export function renderedByGo(template: string, data: Value): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-template-'))
  try {
    const [object, text] = [join(folder, 'data.json'), join(folder, 'template')]
    const head = { apiVersion: 'v1', kind: 'TemplateData', metadata: { name: 'data' } }
    writeFileSync(object, JSON.stringify({ ...head, ...Object(data) }))
    writeFileSync(text, template)
    return kubectl('annotate', '--local', '--filename', object, 'a=b', `--output=go-template-file=${text}`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
