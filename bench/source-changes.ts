/** How the API server and the client of a measurement agree on which change is which, and when it was. */

/** Addresses that only changed slices have: the number of the change follows this. */
export const FIRST_CHANGED_ADDRESS = 0x0b00_0000

/** The machine's monotonic clock, the same in all processes. */
export function microseconds(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
