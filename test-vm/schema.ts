/** Shapes of configuration files, as data, and what in a value is not as its shape has it. Pure. */

export type Shape =
  | { readonly type: 'text'; readonly pattern?: RegExp }
  | { readonly type: 'number' | 'boolean' }
  | { readonly type: 'words'; readonly words: readonly string[] }
  | { readonly type: 'list'; readonly of: Shape }
  | {
      readonly type: 'object'
      readonly fields: Readonly<Record<string, Shape>>
      readonly needed?: readonly string[]
    }

export const text = (pattern?: RegExp): Shape =>
  pattern === undefined ? { type: 'text' } : { type: 'text', pattern }
export const number: Shape = { type: 'number' }
export const boolean: Shape = { type: 'boolean' }
export const words = (...all: readonly string[]): Shape => ({ type: 'words', words: all })
export const list = (of: Shape): Shape => ({ type: 'list', of })
/** No other fields than these. */
export const object = (fields: Readonly<Record<string, Shape>>, needed: readonly string[] = []): Shape => {
  return { type: 'object', fields, needed }
}

/** One line a mistake, by its path; none when the value is of the shape. */
export function mistakes(value: unknown, shape: Shape, path = ''): string[] {
  const wrong = (wanted: string): string[] => [
    `${path || 'it'}: has to be ${wanted}, is ${JSON.stringify(value)}`,
  ]
  switch (shape.type) {
    case 'text':
      if (typeof value !== 'string') return wrong('text')
      return shape.pattern?.test(value) === false ? wrong(`like ${shape.pattern.source}`) : []
    case 'number':
    case 'boolean':
      return typeof value === shape.type ? [] : wrong(`a ${shape.type}`)
    case 'words':
      return typeof value === 'string' && shape.words.includes(value) ? [] : wrong(shape.words.join(' or '))
    case 'list':
      if (!Array.isArray(value)) return wrong('a list')
      return value.flatMap((each, i) => mistakes(each, shape.of, `${path}[${i}]`))
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
        ? inFields(Object.entries(value), shape, path)
        : wrong('an object')
  }
}

function inFields(
  entries: readonly (readonly [string, unknown])[],
  { fields, needed = [] }: Extract<Shape, { type: 'object' }>,
  path: string,
): string[] {
  const place = (key: string): string => (path === '' ? key : `${path}.${key}`)
  const absent = needed.filter((key) => !entries.some(([name]) => name === key))
  return [
    ...absent.map((key) => `${place(key)}: is missing`),
    ...entries.flatMap(([key, value]) => {
      const shape = Object.hasOwn(fields, key) ? fields[key] : undefined
      return shape === undefined
        ? [`${place(key)}: there is no such field`]
        : mistakes(value, shape, place(key))
    }),
  ]
}
