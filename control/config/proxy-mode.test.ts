import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { runProgram } from '../cli/program.ts'
import { SCHEDULERS } from '../model/schedulers.ts'
import type { RunOptions } from './options.ts'

/** The options that `sluice run` is called with, or what is said instead. */
async function read(line: string): Promise<RunOptions | string> {
  let result: RunOptions | string = ''
  const unused = async () => assert.fail('another command')
  const commands = {
    readConfiguration: unused,
    services: unused,
    backends: unused,
    flows: unused,
    probe: unused,
    cleanup: unused,
  }
  const args = ['run', '--source', 'files:/m', ...(line === '' ? [] : line.split(' '))]
  const run = async (options: RunOptions) => {
    result = options
  }
  const err = (text: string) => {
    result = text
  }
  await runProgram(args, 'v', { ...commands, run }, { out: () => {}, err })
  return result
}

describe('the mode and the scheduler, kube-proxy’s others in our terms', () => {
  const foreign = (mode: string) =>
    `--proxy-mode ${mode}: there is no such dataplane here, and one is chosen as with auto`
  const ipvs = (text: string) => [`${foreign('ipvs')}; ${text}`]
  const rows: [line: string, mode: string, scheduler: string | undefined, warnings: readonly string[]][] = [
    ['', 'auto', undefined, []],
    ['--proxy-mode=', 'auto', undefined, []],
    ['--proxy-mode auto', 'auto', undefined, []],
    ['--proxy-mode bpf --scheduler random', 'bpf', 'random', []],
    ['--proxy-mode iptables --scheduler round-robin', 'iptables', 'round-robin', []],
    ['--proxy-mode nftables', 'auto', undefined, [foreign('nftables')]],
    [
      '--proxy-mode userspace',
      'auto',
      'round-robin',
      [`${foreign('userspace')}; round-robin, as ever with userspace`],
    ],
    ['--proxy-mode userspace --scheduler random', 'auto', 'random', [foreign('userspace')]],
    ['--proxy-mode ipvs', 'auto', 'round-robin', ipvs("round-robin, IPVS's rr")],
    ['--proxy-mode ipvs --ipvs-scheduler=', 'auto', 'round-robin', ipvs("round-robin, IPVS's rr")],
    ['--proxy-mode ipvs --ipvs-scheduler rr', 'auto', 'round-robin', ipvs("round-robin, IPVS's rr")],
    ...(
      [
        ['wrr', 'weighted-round-robin'],
        ['lc', 'least-connection'],
        ['wlc', 'weighted-least-connection'],
        ['sed', 'shortest-expected-delay'],
        ['nq', 'never-queue'],
        ['sh', 'source-hash'],
        ['dh', 'destination-hash'],
        ['mh', 'maglev'],
      ] as const
    ).map(([name, ours]): (typeof rows)[number] => [
      `--proxy-mode ipvs --ipvs-scheduler ${name}`,
      'auto',
      ours,
      ipvs(`${ours}, IPVS's ${name}`),
    ]),
    [
      '--proxy-mode ipvs --ipvs-scheduler lblc',
      'auto',
      'round-robin',
      ipvs('the scheduler lblc is unknown here, and round-robin is used'),
    ],
    ['--proxy-mode ipvs --ipvs-scheduler wlc --scheduler random', 'auto', 'random', [foreign('ipvs')]],
    [
      '--proxy-mode bpf --ipvs-scheduler wlc',
      'bpf',
      undefined,
      ['--ipvs-scheduler wlc: it goes with --proxy-mode ipvs and changes nothing; see --scheduler'],
    ],
  ]
  for (const [line, proxyMode, scheduler, warnings] of rows) {
    it(line === '' ? 'nothing said' : line, async () => {
      const options = await read(line)
      assert.ok(typeof options === 'object', String(options))
      assert.deepEqual(
        [options.proxyMode, options.scheduler, options.warnings],
        [proxyMode, scheduler, warnings],
      )
    })
  }
})

describe('a value that makes no sense is told in one line', () => {
  const takes = 'It takes auto, bpf, iptables, and nftables, ipvs, userspace for auto.'
  const rows: [line: string, err: string][] = [
    ['--proxy-mode ebpf', `option '--proxy-mode <MODE>' argument 'ebpf' is invalid. ${takes}`],
    [
      '--proxy-mode kernelspace',
      `option '--proxy-mode <MODE>' argument 'kernelspace' is invalid. ${takes} kernelspace is for Windows.`,
    ],
    [
      '--scheduler fair',
      `option '--scheduler <NAME>' argument 'fair' is invalid. Allowed choices are ${SCHEDULERS.join(', ')}.`,
    ],
  ]
  for (const [line, err] of rows) {
    it(line, async () => assert.equal(await read(line), `sluice: ${err}\n`))
  }
})
