/** Which names of objects and ports can be carried into the kernel. */

/**
 * What every name that the API server accepts is made of (RFC 1123 labels), and a little more: it need not be judged
 * here whether it is a good one, only that no two of them can look the same in the 64 bytes that a map has for it.
 */
const NAME = /^[!-~]{1,63}$/

export function isName(text: string): boolean {
  return NAME.test(text)
}

export const NAME_RULE = 'takes 1 to 63 printable ASCII characters'
