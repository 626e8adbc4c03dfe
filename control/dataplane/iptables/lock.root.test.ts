/** Somebody else holds the lock of legacy iptables, or the tool is killed or missing. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { until } from '../../../tools/cluster/until.ts'
import { enterOwnNetwork } from '../../../tools/packets/own-network.ts'
import { type CommandResult, type RunCommand, runCommand } from '../netfilter/command.ts'
import { makeSubject, type ServiceShape, type Subject, stateOf } from './dataplane-kit.ts'
import { IptablesError } from './iptables.ts'

enterOwnNetwork(import.meta.filename)

const KEY = new Set(['t/lock'])
const shape = (endpoint: string): ServiceShape => ({ name: 'lock', endpoints: [endpoint] })

/** As many as users had when others did not get the lock any more. */
const SERVICES = 5000
const LISTERS = 20
const CHANGES = 5
const ROUND_LIMIT_MS = 30_000

const others = Array.from({ length: SERVICES - 1 }, (_, i): ServiceShape => {
  const number = `${i >> 8}.${i & 255}`
  return { name: `other-${i}`, clusterIPs: [`10.97.${number}`], endpoints: [`198.19.${number}`] }
})

describe('B55: a change of one endpoint, and nothing after it', () => {
  const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}`))
  const lock = join(folder, 'lock')
  let answer: ((argv: readonly string[], input: string) => Promise<CommandResult> | undefined) | undefined
  const command = (argv: readonly string[]) => ['env', `XTABLES_LOCKFILE=${lock}`, ...argv]
  const run: RunCommand = (argv, input = '', ...rest) =>
    (argv[0]?.endsWith('-restore') ? answer?.(argv, input) : undefined) ??
    runCommand(command(argv), input, ...rest)
  const giveUp = new AbortController()
  let subject: Subject

  const rules = async () => {
    const { stdout } = await run(['iptables-legacy-save', '-t', 'nat'])
    return stdout.replaceAll(/^#.*\n/gm, '').replaceAll(/\[\d+:\d+\]/g, '')
  }

  before(async () => {
    subject = makeSubject({ run }, { flavour: 'legacy', families: ['ipv4'] })
    await subject.dataplane.start()
    await subject.dataplane.sync(stateOf(shape('198.18.1.1')), undefined)
  })
  after(async () => {
    await subject.dataplane.stop('remove')
    rmSync(folder, { recursive: true })
  })

  /** Takes the lock; what comes back gives it away again. */
  const holdLock = async () => {
    const holder = spawn('flock', [lock, 'sh', '-c', 'echo held; read line'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    await once(holder.stdout, 'data')
    return async () => {
      const ended = once(holder, 'close')
      holder.stdin.end('\n')
      await ended
    }
  }

  /** So many list rules again and again, and wait for the lock for five seconds at most, as the kubelet does. */
  const listRules = (count: number) => {
    const refusals: string[] = []
    const looks = Array.from({ length: count }, () => 0)
    let isOver = false
    const loops = looks.map(async (_, i) => {
      while (!isOver) {
        const { code, stderr } = await run(['iptables-legacy', '-w', '5', '-L', '-n'])
        if (code !== 0) refusals.push(`${code}: ${stderr}`)
        looks[i] = (looks[i] ?? 0) + 1
      }
    })
    return {
      refusals,
      /** Each of them has begun and ended a look since it was asked for. */
      round: async () => {
        const before = [...looks]
        const isDone = async () => looks.every((number, i) => number >= (before[i] ?? 0) + 2)
        assert.ok(await until(isDone, ROUND_LIMIT_MS), 'some of those who list rules come to no end')
      },
      [Symbol.asyncDispose]: async () => {
        isOver = true
        await Promise.all(loops)
      },
    }
  }

  test('waits for the lock, and is written once it is free', async () => {
    const before = await rules()
    const release = await holdLock()
    let isWritten = false
    const sync = subject.dataplane.sync(stateOf(shape('198.18.1.5')), KEY).finally(() => {
      isWritten = true
    })
    // The look takes no lock; the restore has been waiting meanwhile.
    assert.equal(await rules(), before)
    assert.equal(isWritten, false)
    await release()
    assert.deepEqual((await sync).failed, [])
    assert.match(await rules(), /198\.18\.1\.5:8080/)
  })

  test('fails where the lock is not given back, says so, and is written by the next attempt', async () => {
    const second = makeSubject({ run }, { flavour: 'legacy', families: ['ipv4'], signal: giveUp.signal })
    await second.dataplane.start()
    await second.dataplane.sync(stateOf(shape('198.18.1.5')), undefined)
    const before = await rules()
    const release = await holdLock()
    giveUp.abort()
    const desired = stateOf(shape('198.18.1.6'))
    await assert.rejects(second.dataplane.sync(desired, KEY), (error) => {
      assert.ok(error instanceof IptablesError && error.isBusy, String(error))
      assert.match(error.message, /iptables-legacy-restore -w 5.*lock/)
      return true
    })
    assert.equal(await rules(), before)
    await release()
    await second.dataplane.sync(desired, new Set())
    assert.match(await rules(), /198\.18\.1\.6:8080/)
    await subject.dataplane.sync(desired, undefined)
  })

  test(`is written among ${SERVICES} services while ${LISTERS} others list rules, and each of them gets the lock`, async () => {
    const among = (endpoint: string) => stateOf(shape(endpoint), ...others)
    await subject.dataplane.sync(among('198.18.1.5'), undefined)
    await using listers = listRules(LISTERS)
    await listers.round()
    for (let i = 0; i < CHANGES; i++) {
      const { failed, written } = await subject.dataplane.sync(among(`198.18.2.${i}`), KEY)
      assert.deepEqual([failed, written], [[], 3])
    }
    await listers.round()
    assert.deepEqual(listers.refusals, [])
    const chains = await rules()
    assert.match(chains, new RegExp(`198\\.18\\.2\\.${CHANGES - 1}:8080`))
    assert.equal(chains.match(/^:KUBE-SVC-/gm)?.length, SERVICES)
    await subject.dataplane.sync(stateOf(shape('198.18.1.6')), undefined)
  })

  test('leaves the old rules whole where the tool is killed half-way, or is missing', async () => {
    const before = await rules()
    const killed = async (argv: readonly string[], input: string): Promise<CommandResult> => {
      const [file = '', ...args] = command(argv)
      const child = spawn(file, args, { stdio: ['pipe', 'ignore', 'inherit'] })
      const ended = once(child, 'close')
      await new Promise((resolve) => child.stdin.write(input.slice(0, input.length / 2), resolve))
      child.kill('SIGKILL')
      await ended
      return { code: 137, stdout: '', stderr: '(ended by SIGKILL)' }
    }
    const missing = async () => ({
      code: undefined,
      stdout: '',
      stderr: 'spawn iptables-legacy-restore ENOENT',
    })
    const desired = stateOf(shape('198.18.1.7'))
    for (const [how, message] of [
      [killed, /SIGKILL/],
      [missing, /could not be run.*ENOENT/],
    ] as const) {
      answer = how
      await assert.rejects(subject.dataplane.sync(desired, KEY), message)
      assert.equal(await rules(), before)
    }
    answer = undefined
    await subject.dataplane.sync(desired, new Set())
    assert.match(await rules(), /198\.18\.1\.7:8080/)
  })
})
