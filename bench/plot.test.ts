import assert from 'node:assert/strict'
import { test } from 'node:test'
import { barPlot, distributionPlot } from './plot.ts'

test('a distribution rises to all of its values, over powers of ten, and words are escaped', () => {
  const picture = distributionPlot({
    title: 'a < b & c',
    unit: 'ms',
    series: [{ name: 'changes', values: [100, 1, 10] }],
    marks: [{ name: 'aim', value: 10 }],
  })
  assert.match(picture, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" viewBox="0 0 720 320"/)
  assert.match(picture, /<title>a &lt; b &amp; c<\/title>/)
  const points = /points="([^"]+)"/.exec(picture)?.[1]?.split(' ')
  assert.deepEqual(points, ['56,197.3', '376,118.7', '696,40'])
  for (const label of ['1 ms', '10 ms', '100 ms', '50 %', 'aim', 'changes'])
    assert.ok(picture.includes(`>${label}<`))
})

test('bars are as long as their values', () => {
  const picture = barPlot({
    title: 'memory',
    unit: 'MB',
    bars: [
      { name: 'store', value: 20 },
      { name: 'shadow', value: 10 },
    ],
    mark: { name: 'aim', value: 40 },
  })
  const widths = Array.from(picture.matchAll(/width="([\d.]+)" height="14"/g), ([, width]) => Number(width))
  assert.deepEqual(widths, [275, 137.5])
  for (const label of ['store', 'shadow', '20 MB', '10 MB', 'aim']) assert.ok(picture.includes(`>${label}<`))
})
