/** What this kernel has: what `sluice probe` finds, and kinds of devices and sockets that the tests play with. */

import { existsSync, readFileSync } from 'node:fs'
import type { Kernel } from '../kernels.ts'
import type { Outcome } from '../results.ts'
import { attempt, end } from './run.ts'

/** `ip link add … type KIND`, and what else has to be said for it. */
const DEVICE_KINDS: Readonly<Record<string, string>> = {
  bond: '',
  bridge: '',
  dummy: '',
  gre: 'local 192.0.2.1 remote 192.0.2.2',
  gretap: 'local 192.0.2.1 remote 192.0.2.2',
  ip6tnl: 'local 2001:db8::1 remote 2001:db8::2',
  ipip: 'local 192.0.2.1 remote 192.0.2.2',
  netkit: '',
  sit: 'local 192.0.2.1 remote 192.0.2.2',
  veth: '',
  vxlan: 'id 7 local 192.0.2.1 dstport 4789',
  wireguard: '',
}

const KERNEL_MODULES = ['nf_conntrack', 'ipv6', 'ip_vs', 'br_netfilter']

/** Everything found here, by name. */
export function findFeatures(): string[] {
  for (const module of KERNEL_MODULES) attempt(['modprobe', '--quiet', module])
  return [...probed(), ...devices(), ...others()].sort()
}

/** What the kernel has and should have, and what it has and nobody knew of. Pure. */
export function judgeFeatures(kernel: Kernel, found: readonly string[]): Outcome[] {
  const outcome = (name: string, result: Outcome['result'], detail: string): Outcome => {
    return { check: 'features', name, result, detail }
  }
  const here = new Set(found)
  const expected = [...kernel.has].map((name) =>
    here.has(name)
      ? outcome(name, 'passed', '')
      : outcome(
          name,
          'failed',
          `kernel ${kernel.name} should have it (test-vm/kernels.json), and it does not work`,
        ),
  )
  const unexpected = found
    .filter((name) => !kernel.has.has(name))
    .map((name) =>
      outcome(
        name,
        'failed',
        `kernel ${kernel.name} has it, and test-vm/kernels.json does not say so: add it`,
      ),
    )
  return [...expected, ...unexpected]
}

/** Of what `sluice probe` looks at the kernel's part: not tools, privileges and mounts, which the guest always has. */
const NOT_OF_THE_KERNEL = /^(?:CAP_|BPF file system|cgroup v2|nft$|ip6?tables$|Sluice's programs)/

function probed(): string[] {
  const { stdout, stderr } = attempt([process.execPath, 'tools/setup/sluice.mjs', 'probe', '-o', 'json'])
  if (stdout === '') throw new Error(`sluice probe says nothing: ${end(stderr)}`)
  const { findings }: { readonly findings: readonly { name: string; here: string }[] } = JSON.parse(stdout)
  return findings.flatMap(({ name, here }) => (here === 'yes' && !NOT_OF_THE_KERNEL.test(name) ? [name] : []))
}

/** In a network namespace of its own, with which everything goes that it leaves. */
function isolated(argv: readonly [string, ...string[]], input = ''): boolean {
  return attempt(['unshare', '--net', ...argv], input).code === 0
}

function devices(): string[] {
  const plain = Object.entries(DEVICE_KINDS).flatMap(([kind, more]) => {
    const words = more.split(' ').filter((word) => word !== '')
    return isolated(['ip', 'link', 'add', 'try0', 'type', kind, ...words]) ? [`${kind} devices`] : []
  })
  const onVeth = 'link add below0 type veth peer name below1\nlink add link below0 name try0 type vlan id 7\n'
  return isolated(['ip', '-batch', '-'], onVeth) ? [...plain, 'vlan devices'] : plain
}

const RULE = [
  ...['-t', 'nat', '-A', 'POSTROUTING', '-m', 'statistic', '--mode', 'random', '--probability', '0.5'],
  ...['-m', 'comment', '--comment', 'try', '-j', 'MASQUERADE', '--random-fully'],
]

/** Whether both families take a rule as Sluice and kube-proxy write it. */
function takesRules(flavour: 'nft' | 'legacy'): boolean {
  return ['iptables', 'ip6tables'].every((tool) => isolated([`${tool}-${flavour}`, ...RULE]))
}

const NFT_TABLE = `table inet try {
  chain postrouting {
    type nat hook postrouting priority 100
    masquerade fully-random
  }
}
`

function hasSctp(): boolean {
  // Its module takes user-mode Linux down.
  if (readFileSync('/proc/cpuinfo', 'utf8').includes('User Mode Linux')) return false
  const { stderr } = attempt(['socat', '-u', '/dev/null', 'SCTP4-CONNECT:127.0.0.1:9'])
  return /Connection refused/.test(stderr)
}

function others(): string[] {
  const found: Readonly<Record<string, boolean>> = {
    'SCTP sockets': hasSctp(),
    IPVS: existsSync('/proc/net/ip_vs'),
    'sets of addresses': isolated(['ipset', 'create', 'try0', 'hash:ip,port']),
    br_netfilter: existsSync('/proc/sys/net/bridge/bridge-nf-call-iptables'),
    'nft tables of both families with NAT': isolated(['nft', '-f', '-'], NFT_TABLE),
    'iptables on nf_tables': takesRules('nft'),
    'iptables of its own (legacy)': takesRules('legacy'),
  }
  return Object.entries(found).flatMap(([name, isHere]) => (isHere ? [name] : []))
}
