import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Refusal } from '../config/refusal.ts'
import { type DataplanePart, type PartOptions, UnfitError } from './dataplane-part.ts'
import { startPart } from './start-part.ts'

type How = 'starts' | Error

/** What comes of a start on a node whose dataplanes start or fail like this. */
async function start(
  proxyMode: 'auto' | 'bpf' | 'iptables',
  how: { readonly bpf: How; readonly iptables: How },
) {
  const tried: string[] = []
  const starter = (name: 'bpf' | 'iptables') => async () => {
    tried.push(name)
    if (how[name] instanceof Error) throw how[name]
    return { dataplane: { name } } as DataplanePart
  }
  const parts = { options: { proxyMode } } as PartOptions
  try {
    const { part, choice } = await startPart(parts, { bpf: starter('bpf'), iptables: starter('iptables') })
    return { tried, started: part.dataplane.name, reason: choice.reason, error: undefined }
  } catch (error) {
    return { tried, started: undefined, reason: undefined, error }
  }
}

const unfit = new UnfitError(['no bpf(2)'])

describe('a start with one dataplane or the other', () => {
  it('eBPF is not even left for a look at iptables where it works', async () => {
    const { tried, started, reason } = await start('auto', { bpf: 'starts', iptables: 'starts' })
    assert.deepEqual([tried, started, reason], [['bpf'], 'bpf', 'fits'])
  })

  it('iptables, where the node cannot do eBPF', async () => {
    const { tried, started, reason } = await start('auto', { bpf: unfit, iptables: 'starts' })
    assert.deepEqual([tried, started, reason], [['bpf', 'iptables'], 'iptables', 'fallback'])
  })

  it('what was named is not replaced', async () => {
    const { tried, error } = await start('bpf', { bpf: unfit, iptables: 'starts' })
    assert.deepEqual(tried, ['bpf'])
    assert.ok(error instanceof Refusal)
    assert.match(error.message, /^--proxy-mode bpf: eBPF cannot work here: no bpf\(2\)/)
    const { started } = await start('iptables', { bpf: 'starts', iptables: 'starts' })
    assert.equal(started, 'iptables')
  })

  it('neither: both are named', async () => {
    const { error } = await start('auto', { bpf: unfit, iptables: new UnfitError(['no flavour works']) })
    assert.ok(error instanceof Refusal)
    assert.match(error.message, /no bpf\(2\).*no flavour works/)
  })

  it('an error that says nothing of the node stays one', async () => {
    const full = new Error('ENOMEM')
    const refused = new Refusal('the map pinned at … is of another make')
    for (const error of [full, refused]) {
      const outcome = await start('auto', { bpf: error, iptables: 'starts' })
      assert.deepEqual([outcome.tried, outcome.error], [['bpf'], error])
    }
  })
})
