/** Partial updates by the kernel itself: what is there in the end is what one full update writes. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, suite, test } from 'node:test'
import fc from 'fast-check'
import { renderings, steps } from './changes.fixture.ts'
import { readSave } from './saved.ts'

/** More would take long: a property without a kernel does the rest. */
const RUNS = 6
const SEED = 1

for (const flavour of ['nft', 'legacy'] as const) {
  suite(`partial updates, ${flavour}`, () => {
    const namespaces: string[] = []
    after(() => {
      for (const namespace of namespaces) execFileSync('ip', ['netns', 'delete', namespace])
    })

    function savedAfter(texts: readonly string[]): unknown {
      const namespace = `slt${process.pid}p${flavour}${namespaces.length}`
      execFileSync('ip', ['netns', 'add', namespace])
      namespaces.push(namespace)
      const run = (command: string, args: readonly string[], input = '') =>
        execFileSync('nsenter', [`--net=/run/netns/${namespace}`, '--', command, ...args], {
          input,
          encoding: 'utf8',
          stdio: ['pipe', 'pipe', 'inherit'],
        })
      for (const text of texts) {
        run(`iptables-${flavour}-restore`, ['-w', '30', '--noflush', '--counters'], text)
      }
      return ['filter', 'nat'].map((table) => {
        const saved = readSave(run(`iptables-${flavour}-save`, ['-t', table])).get(table)
        return Object.fromEntries(saved?.chains ?? [])
      })
    }

    const samples = fc.sample(steps, { numRuns: RUNS, seed: SEED })
    samples.forEach((all, i) => {
      test(`course ${i + 1} of ${RUNS}, ${all.length} changes`, () => {
        const { partial, full } = renderings(all)
        assert.deepEqual(savedAfter(partial), savedAfter([full]))
      })
    })
  })
}
