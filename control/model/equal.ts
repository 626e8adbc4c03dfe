/**
 * Whether two plain values (objects, arrays, primitives) are equal in structure. It is what lets a service that was
 * computed anew, with the same result, keep the identity of its objects.
 */
export function equalValues(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  const left = a as Readonly<Record<string, unknown>>
  const right = b as Readonly<Record<string, unknown>>
  return keys.every((key) => Object.hasOwn(b, key) && equalValues(left[key], right[key]))
}

/**
 * `after`, made of the parts of `before` wherever these are equal; `before` itself if all of it is. Of an endpoint that
 * moves, all others stay the same objects: little is new, and little is left to be collected.
 */
export function keepParts<T>(before: unknown, after: T): T {
  if (Object.is(before, after)) return before as T
  if (typeof before !== 'object' || typeof after !== 'object' || before === null || after === null)
    return after
  if (Array.isArray(before) && Array.isArray(after)) return keepItems(before, after) as T
  if (Array.isArray(before) || Array.isArray(after)) return after
  const old = before as Readonly<Record<string, unknown>>
  // A copy has the shape of what it is copied from; an object that is put together key by key takes more room.
  const kept = { ...after } as Record<string, unknown>
  const keys = Object.keys(kept)
  let isSame = keys.length === Object.keys(old).length
  for (const key of keys) {
    kept[key] = keepParts(old[key], kept[key])
    isSame = isSame && Object.hasOwn(old, key) && Object.is(kept[key], old[key])
  }
  return (isSame ? before : kept) as T
}

/** Items are compared from both ends: mostly one of them has come, gone or changed. */
function keepItems(before: readonly unknown[], after: readonly unknown[]): readonly unknown[] {
  const kept = after.slice()
  const shorter = Math.min(before.length, after.length)
  let first = 0
  while (first < shorter && equalValues(before[first], after[first])) {
    kept[first] = before[first]
    first += 1
  }
  if (first === before.length && first === after.length) return before
  let last = 1
  while (last <= shorter - first && equalValues(before.at(-last), after.at(-last))) {
    kept[after.length - last] = before.at(-last)
    last += 1
  }
  for (let i = first; i <= after.length - last; i += 1) {
    if (i <= before.length - last) kept[i] = keepParts(before[i], after[i])
  }
  return kept
}
