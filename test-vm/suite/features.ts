/** What this kernel has: what `sluice probe` finds, and kinds of devices and sockets that the tests play with. */

import { existsSync } from 'node:fs'
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

const KERNEL_MODULES = ['nf_conntrack', 'ipv6', 'veth']

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

function devices(): string[] {
  return Object.entries(DEVICE_KINDS).flatMap(([kind, more]) => {
    const words = more.split(' ').filter((word) => word !== '')
    const { code } = attempt(['ip', 'link', 'add', 'try0', 'type', kind, ...words])
    if (code === 0) attempt(['ip', 'link', 'delete', 'try0'])
    return code === 0 ? [`${kind} devices`, ...(kind === 'veth' ? onVeth() : [])] : []
  })
}

/** Devices that sit on another one. */
function onVeth(): string[] {
  attempt(['ip', 'link', 'add', 'below0', 'type', 'veth', 'peer', 'name', 'below1'])
  const { code } = attempt(['ip', 'link', 'add', 'link', 'below0', 'name', 'try0', 'type', 'vlan', 'id', '7'])
  attempt(['ip', 'link', 'delete', 'below0'])
  return code === 0 ? ['vlan devices'] : []
}

/** As a masquerading rule needs it; both families. */
function takesRules(flavour: 'nft' | 'legacy'): boolean {
  const rule = [
    '-t',
    'nat',
    '-A',
    'POSTROUTING',
    '-m',
    'statistic',
    '--mode',
    'random',
    '--probability',
    '0.5',
  ]
  return ['iptables', 'ip6tables'].every(
    (tool) =>
      attempt([
        `${tool}-${flavour}`,
        ...rule,
        '-m',
        'comment',
        '--comment',
        'try',
        '-j',
        'MASQUERADE',
        '--random-fully',
      ]).code === 0,
  )
}

function others(): string[] {
  const connect = attempt(['socat', '-u', '/dev/null', 'SCTP4-CONNECT:127.0.0.1:9'])
  const table =
    'table inet try { chain c { type nat hook postrouting priority 100; masquerade fully-random; } }\n'
  const nft = attempt(['nft', '-f', '-'], table)
  attempt(['nft', 'delete', 'table', 'inet', 'try'])
  attempt(['modprobe', '--quiet', 'ip_vs'])
  attempt(['modprobe', '--quiet', 'br_netfilter'])
  const found: Readonly<Record<string, boolean>> = {
    'SCTP sockets': /Connection refused/.test(connect.stderr),
    IPVS: existsSync('/proc/net/ip_vs'),
    br_netfilter: existsSync('/proc/sys/net/bridge/bridge-nf-call-iptables'),
    'nft tables of both families with NAT': nft.code === 0,
    'iptables on nf_tables': takesRules('nft'),
    'iptables of its own (legacy)': takesRules('legacy'),
  }
  return Object.entries(found).flatMap(([name, isHere]) => (isHere ? [name] : []))
}
