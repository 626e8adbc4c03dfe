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
  large: 1_000_000,
  half: 0.5,
  bell: '\u0007',
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
  ['{{ if .nowhere }}no{{ else }}yes{{ end }}', 'yes'],
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
  // As Go does when it reads a template: whether the part would be reached or not.
  ['{{ if .none }}{{ toYaml .map }}{{ end }}', /\{\{ toYaml .map \}\} is not understood/],
  ['{{ range .empty }}{{ $value }}{{ end }}', /there is no variable \$value/],
  ['{{ range $key, $value := .map }}{{ end }}{{ $key }}', /there is no variable \$key/],
  ['{{ .name | quote }}', /\{\{ .name \| quote \}\} is not understood/],
  ['{{ quote .name }}', /is not understood/],
  ['{{/* words */}}', /is not understood/],
  ['{{-.name}}', /is not understood/],
  ['{{ include "sluice.image" . }}', /is not understood/],
  ['{{ with .name }}{{ end }}', /is not understood/],
  ['{{ $name := .name }}', /is not understood/],
  ['{{ range .list }}{{ $.name }}{{ end }}', /is not understood/],
  ['{{ .list.0 }}', /is not understood/],
  ['{{ if .name }}{{ else with .list }}{{ end }}', /\{\{ else with .list \}\} is not understood/],
  ['{{ range .list }}{{ else if .name }}{{ end }}', /\{\{ else if .name \}\} is not understood/],
  ['{{ if and .name .zero }}{{ end }}', /is not understood/],
  ['{{ eq .name "a" "b" }}', /eq takes 2/],
  ['{{ eq .name }}', /eq takes 2/],
  ['{{ not .name .zero }}', /not takes 1/],
  ['{{ printf "%s" .name }}', /is not understood/],
  ['{{ .name', /\{\{ .name is not closed in its line/],
  ['{{ if\n.name }}{{ end }}', /\{\{ if is not closed in its line/],
  // As Helm, when it renders it with these values.
  ['{{ .nowhere.at }}', /\{\{ .nowhere.at \}\} goes through what has no members/],
  ['{{ if .nowhere.at.all }}{{ end }}', /\{\{ .nowhere.at.all \}\} goes through what has no members/],
  ['{{ .name.first }}', /goes through what has no members/],
  ['{{ range .name }}{{ end }}', /\{\{ range .name \}\} has nothing to go through/],
  ['{{ eq .zero "0" }}', /compares what Go does not/],
  ['{{ printf "%q" .zero }}', /takes a text/],
  ['{{ printf "%q" .bell }}', /takes a text of printable characters/],
  ['{{ .large }}', /Helm writes 1000000 in \{\{ .large \}\} in another way/],
  ['{{ .half }}', /in another way/],
  ['{{ .toString }}', /\{\{ .toString \}\} is no text or number/],
]

for (const [template, error] of REFUSED) {
  test(`refused: ${template}`, () => assert.throws(() => render(template, DATA), error))
}
