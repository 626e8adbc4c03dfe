import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { layout } from '../layout/generated.ts'
import { desiredState, emptyModel, updateDesired } from './desired.ts'
import { makeCluster, makeNodeFacts, makeService } from './fixtures.ts'
import { readServiceCIDRs, SERVICE_CIDRS_MAX } from './service-cidrs.ts'

describe('ServiceCIDRs', () => {
  test('are canonical, of both families, none within another', () => {
    const { cidrs, problems } = readServiceCIDRs([
      '10.96.3.4/12',
      ' 10.100.0.0/16',
      '10.112.0.0/16',
      'FD00:0::/108',
      '010.96.0.0/12',
    ])
    assert.deepEqual(cidrs, ['10.96.0.0/12', '10.112.0.0/16', 'fd00::/108'])
    assert.deepEqual(problems, [])
  })

  test('what is none is left out and named, and hinders no other', () => {
    const { cidrs, problems } = readServiceCIDRs(['10.96.0.0/33', '', '10.96.0.1', '10.0.0.0/8'])
    assert.deepEqual(cidrs, ['10.0.0.0/8'])
    assert.deepEqual(
      problems.map(({ object, field, message }) => `${object} ${field}: ${message}`),
      ['"10.96.0.0/33"', '""', '"10.96.0.1"'].map(
        (text) => `ServiceCIDR spec.cidrs: ${text} is no CIDR; it is left out`,
      ),
    )
  })

  test('as many of a family as the programs look at, and no more', () => {
    assert.equal(SERVICE_CIDRS_MAX, layout.SERVICE_CIDRS)
    const texts = Array.from({ length: SERVICE_CIDRS_MAX + 1 }, (_, i) => `10.${i}.0.0/16`)
    const { cidrs, problems } = readServiceCIDRs([...texts, 'fd00::/108'])
    assert.deepEqual(cidrs, [...texts.slice(0, -1), 'fd00::/108'])
    assert.match(problems[0]?.message ?? '', /^10\.8\.0\.0\/16 is one more than the 8 ranges/)
  })
})

test('ServiceCIDRs are part of the desired state, which is the same object while they and the services are', () => {
  const cluster = { ...makeCluster([makeService()]), serviceCIDRs: ['10.96.0.0/12', 'bad'] }
  const node = makeNodeFacts()
  const first = desiredState(cluster, node)
  assert.deepEqual(first.desired.serviceCIDRs, ['10.96.0.0/12'])
  assert.deepEqual(
    first.problems.map(({ object }) => object),
    ['ServiceCIDR'],
  )
  const same = updateDesired(first, { ...cluster, serviceCIDRs: ['10.96.0.0/12', 'bad'] }, node, new Set())
  assert.equal(same.desired, first.desired)
  const others = updateDesired(first, { ...cluster, serviceCIDRs: ['10.98.0.0/16'] }, node, new Set())
  assert.notEqual(others.desired, first.desired)
  assert.equal(others.desired.services, first.desired.services)
  assert.deepEqual([others.desired.serviceCIDRs, others.problems], [['10.98.0.0/16'], []])
  assert.deepEqual(emptyModel.desired.serviceCIDRs, [])
})
