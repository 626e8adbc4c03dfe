/** Releases of the kernel, `6.1.0-25-amd64` for example. */
import os from 'node:os'

/** The release of the running kernel, and its first two numbers. */
export function kernelRelease(): {
  readonly release: string
  readonly major: number
  readonly minor: number
} {
  const release = os.release()
  const [major = 0, minor = 0] = numbersOf(release)
  return { release, major, minor }
}

/** Below 0 when the first release is older than the second; only major and minor count. */
export function compareReleases(a: string, b: string): number {
  const [majorA = 0, minorA = 0] = numbersOf(a)
  const [majorB = 0, minorB = 0] = numbersOf(b)
  return majorA - majorB || minorA - minorB
}

function numbersOf(release: string): number[] {
  return release.split('.').map((part) => Number.parseInt(part, 10))
}
