import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Feature } from './features.ts'
import { type ProbeReport, probeText, socketNotes, type Verdict } from './probe.ts'
import { type Finding, findingOf, missing, probeKernel, probePrivileges } from './requirements.ts'

const tcx: Finding = { name: 'tcx links', here: 'yes', needed: true, use: 'packets', detail: '' }
const old = findingOf('tcx links', 'packets', undefined, {
  supported: 'no',
  since: '6.6',
  reason: 'the kernel has no tcx',
})
const retval = findingOf('bpf_set_retval', 'refusals', 'EPERM instead', {
  supported: 'no',
  reason: 'no such helper',
})

const report: ProbeReport = {
  verdict: { dataplane: 'bpf', why: '', missing: [] },
  kernel: '6.18.1',
  node: 'n1',
  findings: [tcx, retval],
  devices: [
    { ifindex: 1, name: 'lo', class: 'none', why: 'the loopback device', ingress: [], egress: [] },
    {
      ifindex: 12,
      name: 'eth0',
      class: 'external',
      why: 'routes lead through it to gateway 10.0.0.1',
      ingress: [
        { id: 12, ours: false, by: 'xdp', filter: null },
        { id: 34, ours: true, by: 'tcx', filter: null },
        { id: 20, ours: false, by: 'tcx', filter: null },
      ],
      egress: [
        { id: 35, ours: true, by: 'clsact', filter: 'bpf filter sluice_egress (priority 1, program 35)' },
        { id: null, ours: false, by: 'clsact', filter: 'flower filter (priority 2)' },
      ],
    },
  ],
  rules: [],
  notes: ['No folder of manifests was given.'],
}

describe('the report', () => {
  it('begins with what would be done', () => {
    assert.equal(
      probeText(report, 'table'),
      `
Node n1, kernel 6.18.1: sluice run would use the eBPF dataplane.

WHAT            HERE  NEEDED  USED FOR  DETAIL
tcx links       yes   yes     packets
bpf_set_retval  no    no      refusals  no such helper; EPERM instead

DEVICE  IFINDEX  CLASS     WHY                                         AT INGRESS                          AT EGRESS
lo            1  none      the loopback device                         -                                   -
eth0         12  external  routes lead through it to gateway 10.0.0.1  XDP program 12, sluice, program 20  sluice (clsact), flower filter (priority 2)

No folder of manifests was given.
`.slice(1),
    )
  })

  it('names the rules of others that will see less', () => {
    const rule = { tool: 'nft', family: 'ip', table: 'raw', chain: 'pre', rule: 'tcp dport 30080 drop' }
    const text = probeText({ ...report, rules: [{ ...rule, means: 'sees less' }] }, 'table')
    assert.match(text, /RULE OF OTHERS +LISTED BY +FAMILY +TABLE +CHAIN +WITH SLUICE IT\n/)
    assert.match(text, /\ntcp dport 30080 drop +nft +ip +raw +pre +sees less\n/)
  })

  it('says what is missing where it would not start', () => {
    const verdict: Verdict = { dataplane: null, why: '', missing: missing([old]) }
    const [line] = probeText({ ...report, verdict }, 'table').split('\n')
    assert.equal(
      line,
      'Node n1, kernel 6.18.1: sluice run cannot start here. Missing: tcx links (the kernel has no tcx, kernel 6.6 has it).',
    )
  })

  it('says what would be used instead of eBPF, and why', () => {
    const why = 'eBPF cannot work here: no bpf(2)'
    const verdict: Verdict = { dataplane: 'iptables', why, missing: ['no bpf(2)'] }
    const [line] = probeText({ ...report, verdict }, 'table').split('\n')
    assert.equal(
      line,
      'Node n1, kernel 6.18.1: sluice run would use the iptables dataplane: eBPF cannot work here: no bpf(2).',
    )
  })

  it('keeps the names of its JSON', () => {
    const { verdict, ...others } = report
    assert.deepEqual(JSON.parse(probeText(report, 'json')), { ...verdict, ...others })
  })
})

it('names programs of others on sockets, each once, with its hooks', () => {
  const hooks = [
    ['connect4', [12, 9]],
    ['connect6', []],
    ['sendmsg4', [12]],
  ] as const
  const notes = socketNotes('/sys/fs/cgroup', hooks).map((note) => note.split(':')[0])
  assert.deepEqual(notes, [
    'Program 9 is on sockets of /sys/fs/cgroup too (connect4)',
    'Program 12 is on sockets of /sys/fs/cgroup too (connect4, sendmsg4)',
  ])
})

describe('what is missing', () => {
  it('is what is needed and not here; what nobody knows is tried', () => {
    const unknown = findingOf('x', 'y', undefined, { supported: 'unknown', reason: 'no answer' })
    assert.deepEqual(missing([tcx, retval, unknown]), [])
    assert.deepEqual(missing([tcx, old]), ['tcx links (the kernel has no tcx, kernel 6.6 has it)'])
  })

  const feature = (name: string, supported: 'yes' | 'no', more: Partial<Feature> = {}): Feature => ({
    name,
    use: 'packets',
    since: '6.6',
    probe: () => (supported === 'yes' ? { supported } : { supported, reason: `no ${name}` }),
    ...more,
  })

  it('is no feature that another one spares, unless that is not here either', () => {
    const first = feature('bpf(2)', 'yes')
    const kernel = (tcx: 'yes' | 'no', clsact: 'yes' | 'no') =>
      probeKernel([
        first,
        feature('tcx', tcx, { otherwise: 'clsact instead', spares: 'clsact' }),
        feature('clsact', clsact),
      ])
    assert.deepEqual(missing(kernel('yes', 'no')), [])
    assert.equal(kernel('yes', 'no')[2]?.detail, 'no clsact; tcx are used')
    assert.deepEqual(missing(kernel('no', 'yes')), [])
    assert.deepEqual(missing(kernel('no', 'no')), ['clsact (no clsact)'])
  })

  it('is bpf(2) alone where there is none, and nothing else is tried', () => {
    const findings = probeKernel([feature('bpf(2)', 'no'), { ...feature('x', 'yes'), probe: assert.fail }])
    assert.deepEqual(missing(findings), ['bpf(2) (no bpf(2))'])
  })

  it('is a capability that neither is held nor contained in SYS_ADMIN', () => {
    const lacking = (held: string[]) => missing(probePrivileges(held)).map((text) => text.split(' ')[0])
    assert.deepEqual(lacking([]), ['CAP_BPF', 'CAP_NET_ADMIN', 'CAP_PERFMON'])
    assert.deepEqual(lacking(['BPF', 'NET_ADMIN', 'PERFMON']), [])
    assert.deepEqual(lacking(['SYS_ADMIN']), ['CAP_NET_ADMIN'])
  })
})
