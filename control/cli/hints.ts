/** What stands below the help of the program. */

export const HINTS = `
If you know another tool:
  ipvsadm -Ln                              sluice services
  ipvsadm -Lnc, conntrack -L               sluice flows
  cilium-dbg service list                  sluice services
  cilium-dbg bpf lb list --backends        sluice backends
  cilium-dbg bpf ct list global            sluice flows
  calico-node -bpf nat dump                sluice services, sluice backends
  kube-proxy --cleanup                     sluice cleanup
  kube-proxy --config FILE                 sluice run --config FILE

services, backends and flows read the maps pinned in the kernel: they need root, and no daemon.
Exit codes: 0 done, 1 it failed, 2 it cannot be done like this: an option, a privilege or the kernel must change.`

/** commander's words, as every other error of this program looks. */
export function errorText(text: string): string {
  const isLost = text.startsWith('error: unknown command') && !text.includes('Did you mean')
  return `${text.replace(/^error: /, 'sluice: ')}${isLost ? '(sluice --help lists the commands)\n' : ''}`
}
