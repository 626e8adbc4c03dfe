/** What the project plays elsewhere too, under this kernel: the demo, rows of the conformance table, test files. */

import type { Kernel } from '../kernels.ts'
import type { Outcome } from '../results.ts'
import { end, script } from './run.ts'

/** The whole show; each of its checks counts. */
export async function demo(): Promise<Outcome[]> {
  const { code, stdout, stderr } = await script('tools/demo/main.ts', ['--once'])
  const summary = /(\d+) (?:of (\d+) )?checks were (right|wrong)/.exec(stdout)
  const name = 'npm start -- --once'
  if (code === 0 && summary !== null) {
    return [{ check: 'demo', name, result: 'passed', detail: `${summary[1]} checks` }]
  }
  return [{ check: 'demo', name, result: 'failed', detail: `exit code ${code}: ${end(stdout + stderr, 30)}` }]
}

/** The beginnings of four chapters of the table: a few dozen rows that ask at each hook. */
const ROWS = ['CIP-0*', 'NP-1*', 'ETPL-1*', 'REJ-*']

/** By the dataplane that is for this kernel. */
export async function conformance({ dataplane }: Kernel): Promise<Outcome[]> {
  const which = dataplane === 'iptables' ? dataplane : 'bpf'
  const args = ['--json', '--dataplane', which, '--only', ROWS.join(',')]
  const { code, stdout, stderr } = await script('tools/conformance/main.ts', args)
  const line = stdout.split('\n').find((each) => each.startsWith('{'))
  if (line === undefined) {
    const detail = `exit code ${code}: ${end(stdout + stderr)}`
    return [{ check: 'conformance', name: ROWS.join(' '), result: 'failed', detail }]
  }
  const { rows }: { readonly rows: readonly { id: string; result: string; reason?: string }[] } =
    JSON.parse(line)
  return rows.flatMap(({ id, result, reason = '' }): Outcome[] => {
    if (result === 'not applicable') return []
    const known = result === 'passed' || result === 'skipped' ? result : 'failed'
    return [{ check: 'conformance', name: id, result: known, detail: reason }]
  })
}

/** Test files about what the development machine's kernel may lack, by the check that runs them. */
const TEST_FILES = {
  links: ['tools/scenarios/links.root.test.ts', 'control/dataplane/bpf/local-output.root.test.ts'],
  ipvs: ['control/compose/ipvs.root.test.ts'],
} as const

/** By the project's own runner. A skip here is a failure: this is where it had to run. */
export async function ownTests(check: keyof typeof TEST_FILES): Promise<Outcome[]> {
  const files = TEST_FILES[check]
  // A program to build: there is no compiler in a guest.
  const { stdout, stderr } = await script('tools/test/main.ts', [...files, '--except', 'tun:'])
  const counts = /^(\d+) passed, (\d+) failed, (\d+) skipped$/m.exec(stdout)
  const [passed, failed, skipped] = (counts?.slice(1) ?? []).map(Number)
  const name = files.join(', ')
  const good = passed !== undefined && passed > 0 && failed === 0 && skipped === 0
  const detail = counts === null ? end(stdout + stderr) : good ? `${passed} tests` : end(stdout, 40)
  return [{ check, name, result: good ? 'passed' : 'failed', detail }]
}
