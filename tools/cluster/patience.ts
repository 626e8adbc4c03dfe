/**
 * A limit for failure, on this machine: an emulated processor is many times slower than those on which the limits were
 * chosen, and says so by `SLUICE_TIME_FACTOR`.
 *
 * @param ms milliseconds on a machine of today
 */
export function patience(ms: number): number {
  return ms * Math.max(Number(process.env['SLUICE_TIME_FACTOR'] ?? 1), 1)
}
