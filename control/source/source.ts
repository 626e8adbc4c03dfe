/**
 * What a source of objects is to the rest: it says what has changed, and when it has said everything once.
 * A folder of files is one; the Kubernetes API is another.
 */

import type { EndpointSlice, Namespace, Node, Pod, Problem, Service, ServiceCIDR } from '../model/types.ts'

/** An object that came or changed, or, where `object` is undefined, that is gone. */
export type Change =
  | { readonly kind: 'Service'; readonly key: string; readonly object: Service | undefined }
  | { readonly kind: 'EndpointSlice'; readonly key: string; readonly object: EndpointSlice | undefined }
  | { readonly kind: 'Node'; readonly key: string; readonly object: Node | undefined }
  | { readonly kind: 'Pod'; readonly key: string; readonly object: Pod | undefined }
  | { readonly kind: 'Namespace'; readonly key: string; readonly object: Namespace | undefined }
  | { readonly kind: 'ServiceCIDR'; readonly key: string; readonly object: ServiceCIDR | undefined }

/** The kinds of objects that sources give. */
export type Kind = Change['kind']

/** Something that a source could not use, and where it stands. */
export interface SourceProblem extends Problem {
  /** `web.yaml:12`, the file and its line; `kubernetes`, the source, where there is nothing more to say. */
  readonly place: string
}

/** What a source tells, in its own time. Calls do not throw and do not wait. */
export interface SourceListener {
  /** Objects changed. `key` is `namespace/name`, or the name of an object without a namespace. An object that is as it was costs nothing. */
  apply(changes: readonly Change[]): void
  /**
   * Every kind has been listed in full once, but for the kinds in `late`, which nobody waits for. Until then nothing may
   * be concluded from an object's absence. Called again when fewer are late.
   */
  synced(late?: readonly Kind[]): void
  /** All that cannot be used at present. Replaces what was said before. */
  problems(problems: readonly SourceProblem[]): void
  /** Worth a line only to someone who looks for it: objects of kinds that are not read, and such. */
  note(message: string): void
}

/** How fresh what a source knows of one kind of objects is. */
export interface Freshness {
  readonly kind: Kind
  /** Milliseconds since the source last heard anything of the kind, if only that nothing is new; undefined: never yet. */
  readonly ageMs: number | undefined
  /** For longer than a silence can be good: what is known may be out of date, though it stays in force. */
  readonly isStalled: boolean
}

/** A source of objects. */
export interface Source {
  /** As a person names it: `files:/etc/sluice`. */
  readonly name: string
  /**
   * Begins to tell the listener, and goes on until the signal is aborted. Resolves when it runs, which may be before
   * it is synced. Rejects if it never can run, with a message that says what to change; what can heal by itself (a
   * server that is away, a file that is malformed) is told as a problem and tried again.
   */
  start(listener: SourceListener, signal: AbortSignal): Promise<void>
  /**
   * Of each kind that the source hears of from elsewhere, as things are now. None before it is started, and none of a
   * source that looks for itself. Cheap.
   */
  freshness(): readonly Freshness[]
}
