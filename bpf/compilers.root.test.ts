import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { TcpConversation } from '../tools/packets/conversation.ts'
import { createDatapath, OBJECT_FOLDER } from '../tools/packets/datapath.ts'
import { FAMILIES } from '../tools/packets/family.ts'
import { installedCompilers, withObjects } from '../tools/packets/instructions.ts'
import { createTestNode } from '../tools/packets/node.ts'
import { createNodeDevices, enterOwnNetwork, PORT1 } from '../tools/packets/own-network.ts'

enterOwnNetwork(import.meta.filename)
createNodeDevices()

for (const compiler of installedCompilers()) {
  for (const family of FAMILIES) {
    test(`what clang ${compiler.major} makes for IPv${family} is accepted by the verifier and balances a connection`, () => {
      withObjects(compiler, (paths) => {
        using node = createTestNode({ family, objectFolder: dirname(paths[0] ?? '') })
        node.services.addService({ clusterIp: '10.96.0.10:80', backends: ['10.244.1.3:8080'] })
        const fields = { device: PORT1, client: '10.244.1.2:4000', frontend: '10.96.0.10:80' }
        assert.equal(new TcpConversation(node, fields).shakeHands(), '10.244.1.3:8080')
        assert.equal([...node.datapath.flows.entries()].length, 2)
      })
    })
  }
}

test('the plain objects know nothing of the kernel: no function, no type', () => {
  const objects = (suffix: string) =>
    FAMILIES.map((family) => join(OBJECT_FOLDER, `datapath${family}${suffix}.bpf.o`))
  // Where the kernel's types are hidden, libbpf refuses whatever asks for one.
  const script = `
    mount -t tmpfs none /sys/kernel/btf && exec "$0" --input-type=module -e "
      import { hasEntries } from '${import.meta.resolve('../control/layout/growth.ts')}'
      import { loadObject, readSpec } from '${import.meta.resolve('libbpf-ts')}'
      for (const path of process.argv.slice(1)) {
        const spec = readSpec(path)
        for (const map of spec.maps.values()) if (hasEntries(map)) map.maxEntries = 1
        loadObject(spec).close()
      }" "$@"`
  const load = (files: readonly string[]) =>
    spawnSync('unshare', ['--mount', 'sh', '-c', script, process.execPath, ...files], { encoding: 'utf8' })
  const { status, stderr } = load(objects('_plain'))
  assert.equal(status, 0, stderr)
  assert.match(load(objects('')).stderr, /BTF/)
})

test('the programs load on a kernel that has no function to ask netfilter with', () => {
  const [compiler] = installedCompilers()
  assert.ok(compiler)
  const names = ['bpf_skb_ct_lookup', 'bpf_ct_release'].map((name) => `-D${name}=no_such_function_${name}`)
  const command = `${compiler.command} ${names.join(' ')}`
  withObjects({ ...compiler, command }, (paths) => {
    for (const family of FAMILIES) {
      const options = { family, objectFolder: dirname(paths[0] ?? '') }
      createDatapath(options)[Symbol.dispose]()
      assert.throws(() => createDatapath({ ...options, constants: { have_ct_lookup: 1 } }), `IPv${family}`)
    }
  })
})
