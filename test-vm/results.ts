/** What a guest found, as it is handed to the host. */

import type { Check } from './kernels.ts'

export interface Outcome {
  readonly check: Check
  /** Of what was checked. */
  readonly name: string
  readonly result: 'passed' | 'failed' | 'skipped'
  /** Why it failed or was skipped; else empty, or worth knowing. */
  readonly detail: string
}

export interface GuestReport {
  /** As `uname -r` says. */
  readonly release: string
  /** Everything the kernel has, of what was asked for. */
  readonly features: readonly string[]
  readonly outcomes: readonly Outcome[]
}

/** The file in `$RESULTS` that holds it. */
export const REPORT_FILE = 'report.json'
