/** What the soak and its server say to each other, over the channel between parent and child. */

import type { ApiObject } from '../apiserver/index.ts'

export type ToServer =
  /** Begin, or go on, to misbehave. */
  | { readonly kind: 'trouble' }
  /** Make everything good, change nothing more, and say how things stand. */
  | { readonly kind: 'calm' }

export type FromServer =
  /** The kubeconfig is written. */
  { readonly kind: 'listening' } | { readonly kind: 'calm'; readonly report: Report }

export interface Report {
  readonly objects: readonly ApiObject[]
  /** How often each trouble has happened. */
  readonly troubles: Readonly<Record<string, number>>
  readonly changes: number
  readonly requests: number
}
