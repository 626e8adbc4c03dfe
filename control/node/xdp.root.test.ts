import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openNetlink } from 'libbpf-ts'
import { xdpPrograms } from './xdp.ts'

const NAMESPACE = `slt${process.pid.toString()}xdp`
const SOURCE = `#include <linux/bpf.h>
__attribute__((section("xdp"), used)) int pass(struct xdp_md *context) { return XDP_PASS; }
`
let folder = ''

const ip = (...argv: readonly string[]) =>
  execFileSync('ip', ['-n', NAMESPACE, ...argv], { encoding: 'utf8' })

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  writeFileSync(join(folder, 'pass.c'), SOURCE)
  const headers = `/usr/include/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`
  const argv = ['-O2', '-target', 'bpf', `-I${headers}`, '-c', 'pass.c', '-o', 'pass.o']
  execFileSync('clang', argv, { cwd: folder })
  execFileSync('ip', ['netns', 'add', NAMESPACE])
})
after(() => {
  spawnSync('ip', ['netns', 'delete', NAMESPACE])
  rmSync(folder, { recursive: true })
})

test('the XDP program of a device is found, and nothing on the others', async () => {
  using netlink = openNetlink({ family: 'route', namespace: `/run/netns/${NAMESPACE}` })
  assert.deepEqual(await xdpPrograms(netlink), new Map())
  ip('link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'up1')
  ip('link', 'set', 'dev', 'up0', 'xdpgeneric', 'obj', join(folder, 'pass.o'), 'sec', 'xdp')
  const [link]: { ifindex: number; xdp: { prog: { id: number } } }[] = JSON.parse(
    ip('-j', 'link', 'show', 'up0'),
  )
  assert.ok(link !== undefined)
  assert.deepEqual(await xdpPrograms(netlink), new Map([[link.ifindex, link.xdp.prog.id]]))
  ip('link', 'set', 'dev', 'up0', 'xdpgeneric', 'off')
  assert.deepEqual(await xdpPrograms(netlink), new Map())
})
