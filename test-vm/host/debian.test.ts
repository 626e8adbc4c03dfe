import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mirrorOf, newestImage } from './debian.ts'

test('a suite is fetched from the archive of its kind, as the machine names it', () => {
  const archives = [
    'http://mirror.example/debian-security/',
    'http://mirror.example/debian/',
    'http://other.example/tools/',
  ]
  assert.equal(mirrorOf('trixie-backports', archives), 'http://mirror.example/debian/')
  assert.equal(mirrorOf('bookworm-security', archives), 'http://mirror.example/debian-security/')
  assert.equal(mirrorOf('bookworm-security', archives.slice(1)), undefined)
  assert.equal(mirrorOf('trixie', ['http://mirror.example/debian']), 'http://mirror.example/debian')
  assert.equal(mirrorOf('trixie', ['http://other.example/tools/']), undefined)
})

test('the newest kernel of a release is the one with the highest version, compared number by number', () => {
  const names = [
    'linux-image-6.1.0-9-cloud-amd64',
    'linux-image-6.1.0-57-cloud-amd64',
    'linux-image-6.1.0-58-cloud-amd64-unsigned',
    'linux-image-6.1.0-60-amd64',
    'linux-image-6.12.9+deb13-cloud-amd64',
    'linux-image-6.12.117+deb13-cloud-amd64',
    'linux-image-cloud-amd64',
    'linux-image-7.3.4+deb13-cloud-amd64',
  ]
  assert.equal(newestImage(names, '6.1'), 'linux-image-6.1.0-57-cloud-amd64')
  assert.equal(newestImage(names, '6.12'), 'linux-image-6.12.117+deb13-cloud-amd64')
  assert.equal(newestImage(names, '7'), 'linux-image-7.3.4+deb13-cloud-amd64')
  assert.equal(newestImage(names, '5.10'), undefined)
})
