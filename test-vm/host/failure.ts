/** What can go wrong on the way to a running kernel. */

/** This machine cannot boot the kernel, for a reason that is no fault of ours: what was to run there is skipped. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
}

/** Something that had to work did not: preparing a kernel, or the kernel itself. */
export class MachineError extends Error {
  override readonly name = 'MachineError'
}
