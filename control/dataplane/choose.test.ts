import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { candidates, choose, type Findings, type Mode } from './choose.ts'

const NO_BPF = { bpf: ['no bpf(2) (seccomp)', 'no tc programs'] } as const
const PROBE = '`sluice probe` shows all that is needed'

describe('which dataplane, and why', () => {
  const rows: [mode: Mode, findings: Findings, expected: string][] = [
    ['auto', { bpf: [] }, 'bpf (fits): the kernel takes its programs'],
    ['auto', { bpf: [], iptables: [] }, 'bpf (fits): the kernel takes its programs'],
    [
      'auto',
      { ...NO_BPF, iptables: [] },
      'iptables (fallback): eBPF cannot work here: no bpf(2) (seccomp); no tc programs',
    ],
    ['bpf', { bpf: [] }, 'bpf (configured): --proxy-mode bpf asks for it'],
    ['iptables', { iptables: [] }, 'iptables (configured): --proxy-mode iptables asks for it'],
    [
      'bpf',
      NO_BPF,
      `--proxy-mode bpf: eBPF cannot work here: no bpf(2) (seccomp); no tc programs. ${PROBE}, and --proxy-mode auto takes iptables where it must`,
    ],
    ['bpf', { ...NO_BPF, iptables: [] }, 'no fallback from what was asked for by name'],
    [
      'iptables',
      { bpf: [], iptables: ['neither flavour works'] },
      `--proxy-mode iptables: iptables cannot work here: neither flavour works. ${PROBE}`,
    ],
    [
      'auto',
      { ...NO_BPF, iptables: ['neither flavour works'] },
      `no dataplane can work here: eBPF cannot work here: no bpf(2) (seccomp); no tc programs. And iptables cannot work here: neither flavour works. ${PROBE}`,
    ],
  ]
  for (const [mode, findings, expected] of rows) {
    it(`${mode}, ${JSON.stringify(findings)}`, () => {
      const choice = choose(mode, findings)
      if (expected.startsWith('no fallback')) assert.equal(choice.dataplane, undefined)
      else if (choice.dataplane === undefined) assert.equal(choice.refusal, expected)
      else assert.equal(`${choice.dataplane} (${choice.reason}): ${choice.why}`, expected)
    })
  }

  it('what nobody looked at is not chosen', () => {
    for (const mode of ['auto', 'bpf', 'iptables'] as const) {
      assert.equal(choose(mode, {}).dataplane, undefined)
    }
  })

  it('the better one is looked at first, and none but the one that was named', () => {
    assert.deepEqual(candidates('auto'), ['bpf', 'iptables'])
    assert.deepEqual(candidates('iptables'), ['iptables'])
    assert.deepEqual(candidates('bpf'), ['bpf'])
  })
})
