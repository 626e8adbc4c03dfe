import type { DesiredState, ServiceKey } from '../model/types.ts'

/** What a dataplane did in one sync. Counts are of kernel entries. */
export interface SyncReport {
  readonly written: number
  readonly deleted: number
  readonly unchanged: number
  /** One sentence for each entry that the kernel refused; it is tried again in the next sync. */
  readonly failed: readonly string[]
  /** A whole family could not be written: what was asked for is still to be done, and the proxy is late with it. */
  readonly isLate?: boolean
  /**
   * The Services, wherever they changed, of which something wanted is not in the kernel, and why: one sentence each. Left out
   * by a dataplane that writes all or nothing.
   */
  readonly waiting?: ReadonlyMap<ServiceKey, string>
  readonly durationMs: number
}

/** What a start found in the kernel. */
export interface Restored {
  /** True when state of an earlier process was adopted. */
  readonly adopted: boolean
  readonly services: number
  readonly backends: number
}

/** Every trace that a clean-up removed, each named as a person would look for it. */
export interface CleanupReport {
  readonly removed: readonly string[]
}

/** The kernel side of Sluice: takes a desired state and makes it so. Errors are thrown only when nothing could be done at all. */
export interface Dataplane {
  readonly name: 'bpf' | 'iptables'
  /** Adopt what is pinned, else install. Throws when the kernel refuses. */
  start(): Promise<Restored>
  /**
   * Make the kernel hold `desired`. Idempotent. `changed` names the services that may differ from the last call;
   * undefined means all of them.
   */
  sync(desired: DesiredState, changed: ReadonlySet<ServiceKey> | undefined): Promise<SyncReport>
  /** `leave` keeps traffic flowing after the process; `remove` takes everything out of the kernel. */
  stop(mode: 'leave' | 'remove'): Promise<void>
}
