/**
 * The table of Maglev hashing (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
 * section 3.4): each backend prefers the slots in an order of its own, and all of them take turns to claim the one that
 * they like best of those that are left. All get the share that they have of the turns, and few slots change hands when one comes or goes.
 */

/**
 * The sizes of tables, primes of the kernel's net/netfilter/ipvs/ip_vs_mh.c, and the most backends that each is for. Few
 * sizes, far apart: where the number of backends crosses from one to the other, most clients change their backend. The
 * last one bounds what a list takes of `backend_slots`, and the time to write it.
 */
export const MAGLEV_SIZES: readonly { readonly slots: number; readonly backends: number }[] = [
  { slots: 4093, backends: 64 },
  { slots: 16_381, backends: 1024 },
  { slots: 65_521, backends: Number.POSITIVE_INFINITY },
]

/** Slots of the table for so many backends. */
export function maglevSize(count: number): number {
  return MAGLEV_SIZES.find(({ backends }) => count <= backends)?.slots ?? 0
}

/**
 * Which backend has each slot, as an index into `names`.
 *
 * @param names what tells the backends apart, in an order that every node has them in
 * @param turns whose turn it is to claim a slot, round after round: indexes into `names`, no more than there are slots
 */
export function maglevTable(
  names: readonly string[],
  turns: readonly number[] = names.map((_, i) => i),
): number[] {
  if (names.length === 0) return []
  const size = maglevSize(names.length)
  const table = new Int32Array(size).fill(-1)
  const at = names.map((name) => textHash(name, 0x9e3779b1) % size)
  const skips = names.map((name) => (textHash(name, 0x85ebca77) % (size - 1)) + 1)
  for (let taken = 0; ; ) {
    for (const i of turns) {
      let slot = at[i] ?? 0
      const skip = skips[i] ?? 1
      while (table[slot] !== -1) slot = (slot + skip) % size
      table[slot] = i
      at[i] = (slot + skip) % size
      if (++taken === size) return [...table]
    }
  }
}

/** FNV-1a over the characters, begun with a seed and mixed at the end, as an unsigned number of 32 bits. */
function textHash(text: string, seed: number): number {
  let hash = seed
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
