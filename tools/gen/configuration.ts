/** docs/configuration.md and the JSON Schema of our own configuration, from the tables of what can be set. Pure. */

import { type Field, fieldsOf } from '../../control/config/fields.ts'
import { KUBE_PROXY } from '../../control/config/kube-proxy.ts'
import { OTHER_FLAGS } from '../../control/config/kube-proxy-flags.ts'
import { SLUICE, SLUICE_API_VERSION, SLUICE_KIND } from '../../control/config/sluice.ts'

const INTRODUCTION = `<!-- Written by \`npm run gen\` from control/config/kube-proxy.ts and sluice.ts. -->

# The configuration

The daemon reads the cluster's own \`KubeProxyConfiguration\` (kubeproxy.config.k8s.io/v1alpha1), as kubeadm writes it into the
ConfigMap \`kube-proxy\`, unchanged:

\`\`\`console
# sluice run --config /var/lib/kube-proxy/config.conf --hostname-override NODE
\`\`\`

- **What is not said** is as usual: null, nothing, an empty text, 0 and \`0s\` all mean that, but where a zero is meant (0 in the
  table below).
- **What is wrong** ends the start with exit code 2 and is told all at once, a line for each field: where it stands, what it
  got and what it takes. The rules are kube-proxy's own.
- **What changes nothing here** is told in the log, one warning for each field that asks for something, with what there is
  instead. So is a field that does not exist, as kube-proxy tolerates it.
- **Beside \`--config\`** kube-proxy's flags change nothing, and one warning names those that are given; but
  \`--hostname-override\`, \`--master\`, \`--v\`, \`--logging-format\`, \`--cleanup\`, \`--init-only\` and \`--write-config-to\` count. So
  do all options of Sluice's own: \`sluice run --help\` lists them. A folder of manifests (\`--source files:DIR\`) goes before the
  file's kubeconfig.
- **When the file changes** the daemon ends, and whoever supervises it starts it with what the file says then. Traffic flows on
  meanwhile. The same content in another file, as when a ConfigMap is written anew, is no change, nor is a file that is gone.
- **What is in use** is at \`/configz\` on the port of \`/metrics\`, in kube-proxy's form; \`mode\` is the dataplane there.
  \`--write-config-to FILE\` writes it as a file and does nothing else.

## Fields and flags

*honoured*: as in kube-proxy. *mapped*: something of ours serves the same end. *warned*: it changes nothing, and whoever asks
for something by it is told. *ignored*: it changes nothing that anybody would notice.

| field | flag | usually | here | |
| --- | --- | --- | --- | --- |
`

const AFTER_FIELDS = `
## Connection tracking

Whichever the dataplane, all traffic to services is in the kernel's connection tracking, and the start tells it what
kube-proxy's would, before all else: \`net.netfilter.nf_conntrack_max\` is the larger of \`conntrack.min\` and \`maxPerCore\` for each
CPU of the machine, \`nf_conntrack_buckets\` at least a quarter of it, and with them \`…_tcp_timeout_established\`,
\`…_tcp_timeout_close_wait\`, \`…_tcp_be_liberal\`, \`…_udp_timeout\` and \`…_udp_timeout_stream\`, as far as the table above asks for
something. They stay as they are after \`sluice cleanup\`, as after kube-proxy's.

Where sysctls cannot be written, as in a container without the mount of deploy/install.yaml, one warning names those that differ, with a command
that sets them on the node, and services work all the same. In a network namespace of its own, as kind's nodes have, nobody
can set \`nf_conntrack_max\`; that is told where it is too small.

## Flags without a field

\`--config\`, \`--write-config-to\`, \`--cleanup\`, \`--init-only\` (mounts and sysctls, so that a daemon with fewer privileges may
follow), \`--master\` (our \`--api-server\`), \`--healthz-port\` and \`--metrics-port\` (the ports of the two servers, 0 switches one
off) are honoured. As with kube-proxy, words of a flag may have underscores between them. These change nothing:

| flag | |
| --- | --- |
`

const OWN = `
## Sluice's own configuration

What kube-proxy's configuration has no field for is said by options of \`sluice run\`, or by a document of our own: after \`---\` in
the same file, or in a file of its own that another \`--config\` names. Alone it leaves kube-proxy's flags in force. An option
that is given goes before it, and so does a variable of the environment that stands for one. An editor finds its JSON Schema in
[\`deploy/sluice-configuration.schema.json\`](../deploy/sluice-configuration.schema.json).

\`\`\`yaml
apiVersion: sluice.dev/v1alpha1
kind: SluiceConfiguration
socketLoadBalancing: all
mapSizes: { flows4: 1048576, flows6: 1048576 }
\`\`\`

| field | option | usually | |
| --- | --- | --- | --- |
`

/** As biome.json has it. */
const LINE_WIDTH = 110

export function emitConfigurationPage(): string {
  const fields = [...fieldsOf(KUBE_PROXY)].map(([path, field]) => fieldLine(path.join('.'), field))
  const own = Object.entries<Field<unknown>>(SLUICE).map(([name, { flag, normal, means }]) => {
    return `| \`${name}\` | \`${flag}\` | ${usualText(normal)} | ${means} |`
  })
  const flags = Object.entries(OTHER_FLAGS).map(([flag, { told }]) => {
    return `| \`${flag}\` | ${told === undefined ? 'ignored' : `warned: ${told}`} |`
  })
  return `${INTRODUCTION}${fields.join('\n')}\n${AFTER_FIELDS}${flags.join('\n')}\n${OWN}${own.join('\n')}\n`
}

/** deploy/sluice-configuration.schema.json: our own configuration as JSON Schema. */
export function emitConfigurationSchema(): string {
  const fields = Object.entries<Field<unknown>>(SLUICE).map(([name, { kind, means, normal }]) => {
    const usual = JSON.stringify(normal) === JSON.stringify(kind.zero) ? {} : { default: normal }
    return [name, { description: means, ...kind.schema, ...usual }]
  })
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: SLUICE_KIND,
    type: 'object',
    required: ['apiVersion', 'kind'],
    additionalProperties: false,
    properties: {
      apiVersion: { const: SLUICE_API_VERSION },
      kind: { const: SLUICE_KIND },
      ...Object.fromEntries(fields),
    },
  }
  return `${withShortLists(JSON.stringify(schema, null, 2))}\n`
}

/** Lists of texts on one line where they fit, as the formatter has them. */
function withShortLists(json: string): string {
  return json.replace(/^.*\[\s+("[^\]]*")\s+\]/gm, (long, items: string) => {
    const start = long.slice(0, long.indexOf('[\n'))
    const short = `${start}[${items.replace(/,\s+/g, ', ')}]`
    return short.length <= LINE_WIDTH ? short : long
  })
}

function fieldLine(
  name: string,
  { flag, normal, becomes, means, zeroIsMeant, kind }: Field<unknown>,
): string {
  const hasZero = zeroIsMeant === true && kind.zero !== false
  const usually = [usualText(normal), ...(hasZero ? ['0 is meant'] : [])].join('; ')
  return `| \`${name}\` | ${flag === undefined ? '' : `\`${flag}\``} | ${usually} | ${becomes} | ${means} |`
}

function usualText(normal: unknown): string {
  const isEmpty = normal === null || normal === '' || JSON.stringify(normal) === '{}'
  return isEmpty ? '' : `\`${normal}\``
}
