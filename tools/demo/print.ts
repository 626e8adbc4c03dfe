/** How the demo looks. */

import { styleText } from 'node:util'

const TITLE_WIDTH = 58

export function heading(text: string): string {
  return `\n${styleText('bold', text)}`
}

/** One line for one check: mark, title, what was seen. */
export function checkLine(good: boolean, title: string, shown: string): string {
  const mark = good ? styleText('green', '✔') : styleText('red', '✘')
  return `  ${mark} ${title.padEnd(TITLE_WIDTH)} ${styleText(good ? 'dim' : 'red', shown)}`.trimEnd()
}

/** A check that is not made. */
export function leftOutLine(title: string, why: string): string {
  return styleText('dim', `  – ${title.padEnd(TITLE_WIDTH)} left out: ${why}`)
}

export function note(text: string): string {
  return `    ${styleText('dim', text)}`
}

export const PICTURE = `
  client 203.0.113.10 ── router ──┬── n1 192.168.1.11 ──┬── bridge ──── p1 10.244.1.11, p2 10.244.1.12
                                  │                     └── own links ─ p3 10.244.1.133, p4 10.244.1.134
                                  └── n2 192.168.2.12 ──┬── bridge ──── p5 10.244.2.15
                                                        └── own link ── p6 10.244.2.136

  and an IPv6 address for each: 2001:db8:c::10, n1 2001:db8:1::11, n2 2001:db8:2::12, p1 fd00:10:244:1::11 …`
