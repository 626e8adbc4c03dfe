/** docs/requirements.md, from the table of what is used of a kernel. Pure. */

import { FEATURES, type Feature } from '../../control/cli/features.ts'

const INTRODUCTION = `<!-- Written by \`npm run gen\` from control/cli/features.ts. -->

# What is used of a kernel

The eBPF dataplane takes a kernel for what it can do, never for its version: each thing is tried, by loading a small program,
making a map or attaching to a loopback device in a network namespace made for it. \`sluice probe\` prints what came of it,
and which dataplane would be used. The versions are those of kernel.org; distributions bring some things to older kernels.

5.15 is the oldest long-term kernel that has all that is needed. The oldest that the tests boot is 6.1 ([kernels.md](kernels.md));
5.10 lacks what the table says, and gets iptables ([dataplanes.md](dataplanes.md)).

| what | since | used for | without it |
| --- | --- | --- | --- |
`

const HOOKS = `
## tcx and clsact

Where a kernel has tcx, the programs are on its hooks by links, which are pinned. Before 6.6 they are BPF filters in
direct-action mode on the device's clsact qdisc, one a direction, named \`sluice_ingress\` and \`sluice_egress\`. The programs
are the same, and so is what a packet meets. \`--attach tcx\` or \`--attach clsact\` (or the variable \`SLUICE_ATTACH\`) asks for one
of them; the default, \`auto\`, tries.

| | tcx | clsact |
| --- | --- | --- |
| what holds them | pins under \`--bpf-root\` | the device: they go with it, and are found again by their names |
| ahead of others | at the head of the chain | priority 1, the newest of that priority. A filter of another kind, or for one protocol, that has priority 1 stays ahead: the log tells |
| who gets ahead later | is behind again within five seconds | the same |
| another program of ours, after a restart or an upgrade | replaced from one packet to the next | the same |
| what is not for us | goes on to the next program (\`TCX_NEXT\`) | goes on to the next filter (\`TC_ACT_UNSPEC\`) |
| the qdisc | none is needed | made where there is none, and removed with our last filter unless somebody else has one on it |
| an ingress qdisc on the device | does not matter | clsact has no place beside it: the device is not served, and the log says so |

From one to the other, a restart attaches to each device anew before it takes off what was there. A packet that meets both
in between is translated by the first and passed by the second: established connections go on.
`

export function emitRequirementsPage(): string {
  const spared = new Map(
    FEATURES.flatMap(({ name, spares }) => (spares === undefined ? [] : [[spares, name]])),
  )
  const lines = FEATURES.map((feature: Feature) => {
    const { name, since, use, otherwise } = feature
    const by = spared.get(name)
    const without =
      otherwise ?? (by === undefined ? 'no eBPF dataplane' : `no eBPF dataplane, unless there are ${by}`)
    return `| ${name} | ${since} | ${use} | ${without} |`
  })
  return `${INTRODUCTION}${lines.join('\n')}\n${HOOKS}`
}
