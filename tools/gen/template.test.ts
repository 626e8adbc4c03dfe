/** The templates that are understood, and what is said of others. What Go makes of those of the chart is compared in deploy/. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { render, type Value } from './template.ts'

const DATA: Value = {
  name: 'a',
  none: '',
  zero: 0,
  list: ['x', 'y'],
  map: { b: 2, a: 1 },
  empty: {},
  deep: { er: true },
}

const ROWS: readonly (readonly [template: string, text: string])[] = [
  ['plain', 'plain'],
  ['{{ .name }}{{.zero}}{{ .deep.er }}', 'a0true'],
  ['a \n {{- .name -}} \n b', 'aab'],
  ['{{ printf "%q" .name }}', '"a"'],
  [
    '{{ if .name }}yes{{ end }}{{ if .none }}no{{ end }}{{ if .zero }}no{{ end }}{{ if .empty }}no{{ end }}',
    'yes',
  ],
  ['{{ if .nowhere.at.all }}no{{ else }}yes{{ end }}', 'yes'],
  ['{{ if eq .name "b" }}1{{ else if eq .name "a" }}2{{ else }}3{{ end }}', '2'],
  ['{{ if eq .name "b" }}1{{ else if eq .name "c" }}2{{ else }}3{{ end }}.', '3.'],
  ['{{ if not .none }}{{ if .list }}in{{ end }}{{ end }}', 'in'],
  ['{{ range .list }}<{{ . }}>{{ end }}', '<x><y>'],
  ['{{ range $key, $value := .map }}{{ $key }}={{ $value }};{{ end }}', 'a=1;b=2;'],
  ['{{ range .empty }}no{{ else }}nobody{{ end }}', 'nobody'],
]

for (const [template, text] of ROWS) {
  test(template, () => assert.equal(render(template, DATA), text))
}

const REFUSED: readonly (readonly [template: string, error: RegExp])[] = [
  ['{{ toYaml .map }}', /\{\{ toYaml .map \}\} is not understood/],
  ['{{ .map }}', /\{\{ .map \}\} is no text or number/],
  ['{{ .nowhere }}', /\{\{ .nowhere \}\} is no text or number/],
  ['{{ if .name }}', /\{\{ if .name \}\} has no end/],
  ['{{ if .name }}{{ else }}', /the else of \{\{ if .name \}\} has no end/],
  ['{{ end }}', /\{\{ end \}\} ends nothing/],
]

for (const [template, error] of REFUSED) {
  test(`refused: ${template}`, () => assert.throws(() => render(template, DATA), error))
}
