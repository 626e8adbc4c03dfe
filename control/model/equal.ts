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
