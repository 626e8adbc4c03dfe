import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../cluster/until.ts'
import { keyOf, RESOURCES } from './index.ts'
import { ManifestFolder } from './manifests.ts'
import { ObjectStore } from './objects.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')
const LIMIT_MS = 10_000

test('a folder of manifests becomes the objects of a server, and is followed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-manifests-'))
  try {
    cpSync(EXAMPLES, folder, { recursive: true })
    const objects = new ObjectStore()
    const complaints: string[] = []
    using _folder = new ManifestFolder(folder, objects, (message) => complaints.push(message))
    const names = () =>
      RESOURCES.flatMap((resource) => objects.list(resource).map((each) => `${each.kind} ${keyOf(each)}`))
    assert.ok(names().includes('Service shop/web') && names().includes('Node n1'), names().join())
    const before = objects.get('services', 'shop/web')

    const web = join(folder, 'web.yaml')
    const text = readFileSync(web, 'utf8')
    writeFileSync(web, text.replace('nodePort: 30080', 'nodePort: 30081'))
    assert.ok(await until(async () => objects.get('services', 'shop/web') !== before, LIMIT_MS))
    const slice = objects.list('endpointslices').find(({ metadata }) => metadata.name.startsWith('web-'))

    writeFileSync(web, `${text}\n: [`)
    assert.ok(await until(async () => complaints.length > 0, LIMIT_MS))
    assert.match(complaints[0] ?? '', /^web\.yaml: /)
    assert.equal(objects.get('endpointslices', slice === undefined ? '' : keyOf(slice)), slice)

    rmSync(web)
    assert.ok(await until(async () => objects.get('services', 'shop/web') === undefined, LIMIT_MS))
    assert.ok(names().includes('Node n1'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
