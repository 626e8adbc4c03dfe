/** Objects in, rules out: the shapes that a service can have. Expected lines are typed in from what kube-proxy writes. */

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { makeEndpoint, makePort, makeService, makeSlice } from '../../model/fixtures.ts'
import type { ModelSettings } from '../../model/settings.ts'
import type { Endpoint, EndpointSlice, Service } from '../../model/types.ts'
import { chainHash } from './chains.ts'
import type { RuleSettings } from './rule-settings.ts'
import { desiredOf, kubeProxyNode, serviceRules } from './test-kit.ts'

const HERE = makeEndpoint('10.244.1.1', { nodeName: 'n1' })
const AWAY = makeEndpoint('10.244.2.1', { nodeName: 'n2' })

const EVERY_KIND: Partial<Service> = {
  type: 'LoadBalancer',
  ports: [makePort({ nodePort: 30080 })],
  externalIPs: ['192.0.2.80'],
  loadBalancerIngress: [{ ip: '203.0.113.1', ipMode: 'VIP' }],
}

interface Scenario {
  readonly title: string
  readonly service?: Partial<Service>
  readonly endpoints?: readonly Endpoint[]
  readonly slice?: Partial<EndpointSlice>
  readonly model?: Partial<ModelSettings>
  readonly settings?: Partial<RuleSettings>
  /** Rules in their order, chains by what they are: SVC, SEP(10.244.1.1:8080) … */
  readonly rules: string
}

const WEB_IP = '-m tcp -p tcp -d 10.96.0.1 --dport 80'

const scenarios: readonly Scenario[] = [
  {
    title: 'a ClusterIP: whoever is no pod is masqueraded, and each of two endpoints gets half',
    endpoints: [HERE, AWAY],
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      SVC "default/web cluster IP" ${WEB_IP} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      SVC "default/web -> 10.244.1.1:8080" -m statistic --mode random --probability 0.5000000000 -j SEP(10.244.1.1:8080)
      SVC "default/web -> 10.244.2.1:8080" -j SEP(10.244.2.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080
      SEP(10.244.2.1:8080) "default/web" -s 10.244.2.1 -j KUBE-MARK-MASQ
      SEP(10.244.2.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.2.1:8080`,
  },
  {
    title: 'every kind of frontend, policy Cluster: who comes from outside is masqueraded in any case',
    service: EVERY_KIND,
    endpoints: [AWAY],
    settings: { counters: new Set(['localhost_nps_accepted_pkts']) },
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      KUBE-SERVICES "default/web loadbalancer IP" -m tcp -p tcp -d 203.0.113.1 --dport 80 -j EXT
      KUBE-SERVICES "default/web external IP" -m tcp -p tcp -d 192.0.2.80 --dport 80 -j EXT
      KUBE-NODEPORTS "default/web" -m tcp -p tcp -d 127.0.0.0/8 --dport 30080 -m nfacct --nfacct-name localhost_nps_accepted_pkts -j EXT
      KUBE-NODEPORTS "default/web" -m tcp -p tcp --dport 30080 -j EXT
      SVC "default/web cluster IP" ${WEB_IP} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      EXT "masquerade traffic for default/web external destinations" -j KUBE-MARK-MASQ
      EXT -j SVC
      SVC "default/web -> 10.244.2.1:8080" -j SEP(10.244.2.1:8080)
      SEP(10.244.2.1:8080) "default/web" -s 10.244.2.1 -j KUBE-MARK-MASQ
      SEP(10.244.2.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.2.1:8080`,
  },
  {
    title: 'no endpoint anywhere: everything is rejected, ranges or not',
    service: { ...EVERY_KIND, loadBalancerSourceRanges: ['198.51.100.0/24'] },
    rules: `
      KUBE-SERVICES "default/web has no endpoints" ${WEB_IP} -j REJECT
      KUBE-EXTERNAL-SERVICES "default/web has no endpoints" -m tcp -p tcp -d 203.0.113.1 --dport 80 -j REJECT
      KUBE-EXTERNAL-SERVICES "default/web has no endpoints" -m tcp -p tcp -d 192.0.2.80 --dport 80 -j REJECT
      KUBE-EXTERNAL-SERVICES "default/web has no endpoints" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j REJECT`,
  },
  {
    title:
      'externalTrafficPolicy Local: pods and the node get the cluster, others this node’s endpoints unseen',
    service: {
      ...EVERY_KIND,
      externalIPs: [],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
      // The node's own address is in the second one.
      loadBalancerSourceRanges: ['198.51.100.0/24', '192.168.0.0/16'],
    },
    endpoints: [HERE, AWAY],
    rules: `
      KUBE-PROXY-FIREWALL "default/web traffic not accepted by FW" -m tcp -p tcp -d 203.0.113.1 --dport 80 -j DROP
      KUBE-NODEPORTS "default/web health check node port" -m tcp -p tcp --dport 32000 -j ACCEPT
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      KUBE-SERVICES "default/web loadbalancer IP" -m tcp -p tcp -d 203.0.113.1 --dport 80 -j FW
      KUBE-NODEPORTS "default/web" -m tcp -p tcp --dport 30080 -j EXT
      SVC "default/web cluster IP" ${WEB_IP} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      EXT "pod traffic for default/web external destinations" -s 10.244.0.0/16 -j SVC
      EXT "masquerade LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
      EXT "route LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j SVC
      EXT -j SVL
      FW "default/web loadbalancer IP" -s 198.51.100.0/24 -j EXT
      FW "default/web loadbalancer IP" -s 192.168.0.0/16 -j EXT
      FW "default/web loadbalancer IP" -s 203.0.113.1/32 -j EXT
      FW "other traffic to default/web will be dropped by KUBE-PROXY-FIREWALL"
      SVC "default/web -> 10.244.1.1:8080" -m statistic --mode random --probability 0.5000000000 -j SEP(10.244.1.1:8080)
      SVC "default/web -> 10.244.2.1:8080" -j SEP(10.244.2.1:8080)
      SVL "default/web -> 10.244.1.1:8080" -j SEP(10.244.1.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080
      SEP(10.244.2.1:8080) "default/web" -s 10.244.2.1 -j KUBE-MARK-MASQ
      SEP(10.244.2.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.2.1:8080`,
  },
  {
    title:
      'externalTrafficPolicy Local without an endpoint here: dropped from outside, still the cluster for pods and the node',
    service: { type: 'NodePort', ports: [makePort({ nodePort: 30080 })], externalTrafficPolicy: 'Local' },
    endpoints: [AWAY],
    rules: `
      KUBE-EXTERNAL-SERVICES "default/web has no local endpoints" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j DROP
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      KUBE-NODEPORTS "default/web" -m tcp -p tcp --dport 30080 -j EXT
      SVC "default/web cluster IP" ${WEB_IP} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      EXT "pod traffic for default/web external destinations" -s 10.244.0.0/16 -j SVC
      EXT "masquerade LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
      EXT "route LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j SVC
      SVC "default/web -> 10.244.2.1:8080" -j SEP(10.244.2.1:8080)
      SEP(10.244.2.1:8080) "default/web" -s 10.244.2.1 -j KUBE-MARK-MASQ
      SEP(10.244.2.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.2.1:8080`,
  },
  {
    title: 'internalTrafficPolicy Local: the ClusterIP is for this node’s endpoints, and there are no others',
    service: { internalTrafficPolicy: 'Local' },
    endpoints: [HERE, AWAY],
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVL
      SVL "default/web cluster IP" ${WEB_IP} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      SVL "default/web -> 10.244.1.1:8080" -j SEP(10.244.1.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080`,
  },
  {
    title: 'internalTrafficPolicy Local without an endpoint here: dropped',
    service: { internalTrafficPolicy: 'Local' },
    endpoints: [AWAY],
    rules: `KUBE-SERVICES "default/web has no local endpoints" ${WEB_IP} -j DROP`,
  },
  {
    title: 'affinity: first whoever has been there lately, in the order of the list',
    service: { sessionAffinity: 'ClientIP', sessionAffinityTimeoutSeconds: 60 },
    endpoints: [HERE, AWAY],
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      SVC "default/web cluster IP" ${WEB_IP} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      SVC "default/web -> 10.244.1.1:8080" -m recent --name SEP(10.244.1.1:8080) --rcheck --seconds 60 --reap -j SEP(10.244.1.1:8080)
      SVC "default/web -> 10.244.2.1:8080" -m recent --name SEP(10.244.2.1:8080) --rcheck --seconds 60 --reap -j SEP(10.244.2.1:8080)
      SVC "default/web -> 10.244.1.1:8080" -m statistic --mode random --probability 0.5000000000 -j SEP(10.244.1.1:8080)
      SVC "default/web -> 10.244.2.1:8080" -j SEP(10.244.2.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m recent --name SEP(10.244.1.1:8080) --set -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080
      SEP(10.244.2.1:8080) "default/web" -s 10.244.2.1 -j KUBE-MARK-MASQ
      SEP(10.244.2.1:8080) "default/web" -m recent --name SEP(10.244.2.1:8080) --set -m tcp -p tcp -j DNAT --to-destination 10.244.2.1:8080`,
  },
  {
    title: 'masqueradeAll: pods too; and round robin instead of chance',
    endpoints: [HERE, AWAY],
    model: { masqueradeAll: true, scheduler: 'round-robin' },
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      SVC "default/web cluster IP" ${WEB_IP} -j KUBE-MARK-MASQ
      SVC "default/web -> 10.244.1.1:8080" -m statistic --mode nth --every 2 --packet 0 -j SEP(10.244.1.1:8080)
      SVC "default/web -> 10.244.2.1:8080" -j SEP(10.244.2.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080
      SEP(10.244.2.1:8080) "default/web" -s 10.244.2.1 -j KUBE-MARK-MASQ
      SEP(10.244.2.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.2.1:8080`,
  },
  {
    title: 'pods known by a bridge',
    service: { externalIPs: ['192.0.2.80'], externalTrafficPolicy: 'Local' },
    endpoints: [HERE],
    settings: { localPods: { by: 'device', name: 'cbr0' } },
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      KUBE-SERVICES "default/web external IP" -m tcp -p tcp -d 192.0.2.80 --dport 80 -j EXT
      SVC "default/web cluster IP" ${WEB_IP} ! -i cbr0 -j KUBE-MARK-MASQ
      EXT "pod traffic for default/web external destinations" -i cbr0 -j SVC
      EXT "masquerade LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
      EXT "route LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j SVC
      EXT -j SVL
      SVC "default/web -> 10.244.1.1:8080" -j SEP(10.244.1.1:8080)
      SVL "default/web -> 10.244.1.1:8080" -j SEP(10.244.1.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080`,
  },
  {
    title:
      'pods that cannot be told from others: nobody is masqueraded at a ClusterIP, nobody but the node let through',
    service: { externalIPs: ['192.0.2.80'], externalTrafficPolicy: 'Local' },
    endpoints: [HERE],
    settings: { localPods: undefined },
    rules: `
      KUBE-SERVICES "default/web cluster IP" ${WEB_IP} -j SVC
      KUBE-SERVICES "default/web external IP" -m tcp -p tcp -d 192.0.2.80 --dport 80 -j EXT
      EXT "masquerade LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
      EXT "route LOCAL traffic for default/web external destinations" -m addrtype --src-type LOCAL -j SVC
      EXT -j SVL
      SVC "default/web -> 10.244.1.1:8080" -j SEP(10.244.1.1:8080)
      SVL "default/web -> 10.244.1.1:8080" -j SEP(10.244.1.1:8080)
      SEP(10.244.1.1:8080) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:8080) "default/web" -m tcp -p tcp -j DNAT --to-destination 10.244.1.1:8080`,
  },
  {
    title: 'IPv6, UDP, a named port, pods known by the beginning of their devices’ names',
    service: {
      clusterIPs: ['fd00:10:96::1'],
      ports: [makePort({ name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053 })],
    },
    endpoints: [makeEndpoint('fd00:10:244:1::1')],
    slice: { addressType: 'IPv6', ports: [{ name: 'dns', port: 5353, protocol: 'UDP' }] },
    settings: {
      family: 'ipv6',
      localPods: { by: 'device prefix', prefix: 'veth' },
      localhostNodePorts: true,
    },
    rules: `
      KUBE-SERVICES "default/web:dns cluster IP" -m udp -p udp -d fd00:10:96::1 --dport 53 -j SVC
      KUBE-NODEPORTS "default/web:dns" -m udp -p udp --dport 30053 -j EXT
      SVC "default/web:dns cluster IP" -m udp -p udp -d fd00:10:96::1 --dport 53 ! -i veth+ -j KUBE-MARK-MASQ
      EXT "masquerade traffic for default/web:dns external destinations" -j KUBE-MARK-MASQ
      EXT -j SVC
      SVC "default/web:dns -> [fd00:10:244:1::1]:5353" -j SEP([fd00:10:244:1::1]:5353)
      SEP([fd00:10:244:1::1]:5353) "default/web:dns" -s fd00:10:244:1::1 -j KUBE-MARK-MASQ
      SEP([fd00:10:244:1::1]:5353) "default/web:dns" -m udp -p udp -j DNAT --to-destination [fd00:10:244:1::1]:5353`,
  },
  {
    title: 'SCTP; an endpoint that only drains has no chain',
    service: { ports: [makePort({ protocol: 'SCTP', port: 9999 })] },
    endpoints: [HERE, { ...AWAY, state: { ...AWAY.state, ready: false, terminating: true } }],
    slice: { ports: [{ name: '', port: 9999, protocol: 'SCTP' }] },
    rules: `
      KUBE-SERVICES "default/web cluster IP" -m sctp -p sctp -d 10.96.0.1 --dport 9999 -j SVC
      SVC "default/web cluster IP" -m sctp -p sctp -d 10.96.0.1 --dport 9999 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
      SVC "default/web -> 10.244.1.1:9999" -j SEP(10.244.1.1:9999)
      SEP(10.244.1.1:9999) "default/web" -s 10.244.1.1 -j KUBE-MARK-MASQ
      SEP(10.244.1.1:9999) "default/web" -m sctp -p sctp -j DNAT --to-destination 10.244.1.1:9999`,
  },
]

suite('the rules of a service', () => {
  for (const scenario of scenarios) {
    test(scenario.title, () => {
      const { endpoints = [], model, settings } = scenario
      const slice = makeSlice(endpoints, scenario.slice)
      const desired = desiredOf([makeService(scenario.service)], [slice], kubeProxyNode(model))
      const rules = serviceRules(desired, settings).filter((line) => line.startsWith('-A '))
      const wanted = scenario.rules.trim().split(/\n\s+/)
      assert.deepEqual(rules.map(readableFor(slice)), wanted)
    })
  }
})

/** Rules with their chains by what they are instead of by hashes, and comments without what announces them. */
function readableFor({ ports, endpoints }: EndpointSlice): (rule: string) => string {
  const [{ name, protocol, port } = { name: '', protocol: 'TCP', port: 0 }] = ports
  const identity = `default/web${name ? `:${name}` : ''}${protocol.toLowerCase()}`
  const names = new Map(
    ['SVC', 'SVL', 'EXT', 'FW'].map((kind) => [`KUBE-${kind}-${chainHash(identity)}`, kind]),
  )
  for (const { address = '' } of endpoints) {
    const at = `${address.includes(':') ? `[${address}]` : address}:${port}`
    names.set(`KUBE-SEP-${chainHash(identity + at)}`, `SEP(${at})`)
  }
  return (rule) =>
    rule
      .replace(/^-A /, '')
      .replace('-m comment --comment ', '')
      .replace(/KUBE-[A-Z]+-[A-Z2-7]{16}/g, (chain) => names.get(chain) ?? chain)
}
