/** The check of manifests, proven on mistakes as people make them: each is found, at its place, and nothing else is. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderChart } from '../tools/gen/deploy.ts'
import { documentsOf } from './manifests.ts'
import { problemsOf } from './validate.ts'

const INSTALLED = renderChart({ podSockets: true })

/** What is written instead of what, and what is said of it. */
const MISTAKES: readonly (readonly [what: string, from: string, to: string, problem: RegExp])[] = [
  [
    'an API group that has no such kind',
    'apiVersion: apps/v1',
    'apiVersion: extensions/v1beta1',
    /^\/: extensions\/v1beta1 DaemonSet is not known here$/,
  ],
  ['a kind misspelt', 'kind: DaemonSet', 'kind: Daemonset', /^\/: apps\/v1 Daemonset is not known here$/],
  [
    'no selector',
    '  selector:\n    matchLabels:\n      k8s-app: sluice\n',
    '',
    /^\/spec: required .*"selector"/,
  ],
  [
    'a selector of other pods',
    '    matchLabels:\n      k8s-app: sluice\n',
    '    matchLabels:\n      k8s-app: kube-proxy\n',
    /^\/spec\/selector: the pods have no label k8s-app that is kube-proxy$/,
  ],
  [
    'a field misspelt',
    'priorityClassName:',
    'priorityClass:',
    /^\/spec\/template\/spec\/priorityClass: unknown field$/,
  ],
  [
    'a field of a pod in a container',
    '            allowPrivilegeEscalation: false\n',
    '            allowPrivilegeEscalation: false\n            fsGroup: 0\n',
    /^\/spec\/template\/spec\/containers\/0\/securityContext\/fsGroup: unknown field$/,
  ],
  [
    'a field one level too high',
    '        tier: node\n',
    '        tier: node\n    hostNetwork: true\n',
    /^\/spec\/template\/hostNetwork: unknown field$/,
  ],
  [
    'text for a truth value',
    'hostNetwork: true',
    'hostNetwork: "true"',
    /^\/spec\/template\/spec\/hostNetwork: type .*"boolean"/,
  ],
  [
    'text for a number',
    'terminationGracePeriodSeconds: 10',
    'terminationGracePeriodSeconds: 10s',
    /^\/spec\/template\/spec\/terminationGracePeriodSeconds: type .*"integer"/,
  ],
  [
    'a number for text',
    'tier: node',
    'tier: 1',
    /^\/spec\/template\/metadata\/labels\/tier: type .*"string"/,
  ],
  [
    'a policy that there is not',
    'dnsPolicy: Default',
    'dnsPolicy: Host',
    /^\/spec\/template\/spec\/dnsPolicy: enum /,
  ],
  [
    'a way of updating that there is not',
    'type: RollingUpdate',
    'type: Recreate',
    /^\/spec\/updateStrategy\/type: enum /,
  ],
  [
    'a propagation that there is not',
    'mountPropagation: Bidirectional',
    'mountPropagation: Shared',
    /^\/spec\/template\/spec\/initContainers\/0\/volumeMounts\/0\/mountPropagation: enum /,
  ],
  [
    'a kind of folder that there is not',
    'type: DirectoryOrCreate',
    'type: DirOrCreate',
    /^\/spec\/template\/spec\/volumes\/4\/hostPath\/type: enum /,
  ],
  [
    'a seccomp profile that there is not',
    'type: RuntimeDefault',
    'type: Default',
    /seccompProfile\/type: enum /,
  ],
  [
    'one argument for the list of them',
    'verbs: [list, watch]',
    'verbs: list',
    /^\/rules\/0\/verbs: type .*"array"/,
  ],
  ['a rule without verbs', '    verbs: [list, watch]\n', '', /^\/rules\/0: required .*"verbs"/],
  [
    'a binding without a role',
    'roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: sluice-pods\n',
    '',
    /^\/: required .*"roleRef"/,
  ],
  [
    'a container without a name',
    '        - name: sluice\n          image',
    '        - image',
    /^\/spec\/template\/spec\/containers\/0: required .*"name"/,
  ],
  [
    'a mount of no volume',
    '- name: xtables-lock\n              mountPath',
    '- name: lock\n              mountPath',
    /^\/spec\/template\/spec\/containers\/0\/volumeMounts: there is no volume lock$/,
  ],
  [
    'a probe at no port',
    'path: /livez\n              port: healthz',
    'path: /livez\n              port: health',
    /^\/spec\/template\/spec\/containers\/0\/livenessProbe: there is no port health$/,
  ],
  [
    'a port beyond all ports',
    'containerPort: 10256',
    'containerPort: "10256"',
    /ports\/0\/containerPort: type .*"integer"/,
  ],
  [
    'a volume named twice',
    '        - name: cgroup\n          hostPath',
    '        - name: bpf\n          hostPath',
    /^\/spec\/template\/spec\/volumes: bpf is there twice$/,
  ],
  [
    'no metadata in a variable from a field',
    'fieldPath: spec.nodeName',
    'path: spec.nodeName',
    /^\/spec\/template\/spec\/containers\/0\/env\/0\/valueFrom\/fieldRef: required .*"fieldPath"/,
  ],
]

const problems = (text: string): string[] => documentsOf(text).flatMap(problemsOf)

test('nothing is found where there is nothing', () => {
  assert.deepEqual(problems(INSTALLED), [])
})

for (const [what, from, to, problem] of MISTAKES) {
  test(`found: ${what}`, () => {
    const text = INSTALLED.replace(from, to)
    assert.notEqual(text, INSTALLED, 'the mistake is not in it')
    const found = problems(text)
    assert.ok(
      found.some((line) => problem.test(line)),
      `${problem} fits none of: ${found.join(' | ')}`,
    )
  })
}
