import { execFileSync } from 'node:child_process'
import { runCommand } from '../netfilter/command.ts'
import { iptablesContract, type Place } from './iptables-contract.ts'

let places = 0

function makeNamespace(): Place {
  places += 1
  const namespace = `slt${process.pid}ipt${places}`
  execFileSync('ip', ['netns', 'add', namespace])
  return {
    run: (argv, ...rest) => runCommand(['nsenter', `--net=/run/netns/${namespace}`, '--', ...argv], ...rest),
    remove: () => execFileSync('ip', ['netns', 'delete', namespace]),
  }
}

for (const flavour of ['nft', 'legacy'] as const) {
  iptablesContract(`iptables-${flavour}`, makeNamespace, 'ipv4', flavour)
  iptablesContract(`ip6tables-${flavour}`, makeNamespace, 'ipv6', flavour)
}
