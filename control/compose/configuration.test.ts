import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isChanged, readConfiguration } from './configuration.ts'
import { setOomScore } from './oom-score.ts'

const folder = mkdtempSync(join(tmpdir(), `slt${process.pid}-`))
after(() => rmSync(folder, { recursive: true }))

const TEXT = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

test('a file that cannot be read is refused by its name', () => {
  assert.throws(() => readConfiguration([join(folder, 'none')]), /--config .*none: it cannot be read: ENOENT/)
  assert.throws(() => readConfiguration([folder]), /it cannot be read: EISDIR/)
})

test('a ConfigMap that is written anew is a change when it says something else, and only then', async () => {
  // As the kubelet has it: a link to a link to a folder, which is switched as a whole.
  const link = join(folder, '..data')
  const become = (name: string, text: string) => {
    mkdirSync(join(folder, name))
    writeFileSync(join(folder, name, 'config.conf'), text)
    symlinkSync(name, `${link}_tmp`)
    renameSync(`${link}_tmp`, link)
  }
  become('first', TEXT)
  symlinkSync('..data/config.conf', join(folder, 'config.conf'))
  const [file = assert.fail()] = readConfiguration([join(folder, 'config.conf')]).files
  assert.equal(await isChanged(file), false)
  become('second', TEXT)
  assert.equal(await isChanged(file), false)
  become('third', `${TEXT}mode: iptables\n`)
  assert.equal(await isChanged(file), true)
  rmSync(link)
  assert.equal(await isChanged(file), false)
})

test('the OOM score of the process is set, and where it cannot be that is told', () => {
  const script = `
    import { readFileSync } from 'node:fs'
    import { setOomScore } from ${JSON.stringify(join(import.meta.dirname, 'oom-score.ts'))}
    const read = () => readFileSync('/proc/self/oom_score_adj', 'utf8').trim()
    const before = read()
    setOomScore(undefined, console)
    console.log(read() === before)
    setOomScore(1000, console)
    console.log(read())`
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  assert.equal(out, 'true\n1000\n')

  const told: string[] = []
  const file = join(folder, 'score')
  setOomScore(-999, { info: (text) => told.push(text) }, file)
  assert.equal(readFileSync(file, 'utf8'), '-999')
  setOomScore(-999, { info: (text) => told.push(text) }, join(folder, 'none', 'score'))
  assert.deepEqual(told, ['oomScoreAdj stays as it is: to set it to -999 takes the capability SYS_RESOURCE'])
})
