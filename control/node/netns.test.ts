import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { BpfError } from 'libbpf-ts'
import { NetnsFolder, type NetnsLook } from './netns.ts'

describe('the folder of network namespaces', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'netns-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  /** A folder in which each file is a namespace of this content, with what was looked into. */
  function make(look: (name: string) => ReturnType<NetnsLook>) {
    const looks: string[] = []
    const subject = new NetnsFolder(folder, (path) => {
      looks.push(path.slice(folder.length + 1))
      return look(path.slice(folder.length + 1))
    })
    return { subject, looks }
  }

  const add = (name: string) => writeFileSync(join(folder, name), '')
  const names = (subject: NetnsFolder) => subject.list().map(({ path }) => path.slice(folder.length + 1))

  test('each namespace is entered once, as soon as it has an address', () => {
    const addresses: string[] = []
    const { subject, looks } = make(() => ({ cookie: 5n, addresses: [...addresses] }))
    add('a')
    assert.deepEqual(subject.list(), [{ path: join(folder, 'a'), cookie: 5n, addresses: [] }])
    addresses.push('10.1.1.1')
    assert.deepEqual(subject.list()[0]?.addresses, ['10.1.1.1'])
    subject.list()
    assert.deepEqual(looks, ['a', 'a'])
  })

  test('one that is gone is forgotten, and a new file of its name is another one', () => {
    const cookies = [5n, 6n]
    const { subject } = make(() => ({ cookie: cookies.shift() ?? 0n, addresses: ['10.1.1.1'] }))
    add('a')
    assert.equal(subject.find(5n), join(folder, 'a'))
    // Another file in between: or the file system may give out the inode again.
    add('b-keeps-no-inode-free')
    rmSync(join(folder, 'a'))
    assert.equal(subject.find(5n), undefined)
  })

  test('a file that is no namespace yet is looked at again, and hinders no other', () => {
    let isReady = false
    const { subject } = make((name) => {
      if (name === 'a' && !isReady) throw new BpfError('enter', 'network namespace a', 22)
      return { cookie: name === 'a' ? 5n : 6n, addresses: ['10.1.1.1'] }
    })
    add('a')
    add('b')
    assert.deepEqual(names(subject), ['b'])
    isReady = true
    assert.deepEqual(names(subject), ['a', 'b'])
  })

  test('what this process may not do is an error', () => {
    const { subject } = make(() => {
      throw new BpfError('enter', 'network namespace a', 1)
    })
    add('a')
    assert.throws(() => subject.list(), /EPERM/)
  })

  test('without the folder there are none', () => {
    assert.deepEqual(new NetnsFolder(join(folder, 'none')).list(), [])
  })
})
