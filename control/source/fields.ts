/**
 * Reading the fields of an object from a manifest or from the API, whose shape nobody has checked. A field of the wrong
 * type throws a FieldError with its path, and the object it stands in is refused as a whole, as the API server would.
 * As in the API, null is the same as absent.
 */

/** The way to a field from the root of a document: names and list indexes. */
export type Path = readonly (string | number)[]

/** A field that is not what it must be. `message` says what it is, and what is expected. */
export class FieldError extends Error {
  readonly path: Path

  constructor(path: Path, message: string) {
    super(message)
    this.path = path
  }
}

/** `spec.ports[0].port` */
export function pathText(path: Path): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    return text === '' ? step : `${text}.${step}`
  }, '')
}

/** A step from one mapping to another: the path itself is needed only where something is wrong. */
interface Step {
  readonly from: Fields
  readonly name: string
  readonly index?: number
}

/** A mapping in a manifest, with the way to it. */
export class Fields {
  readonly #place: Path | Step
  readonly #values: Readonly<Record<string, unknown>>

  /** @param place the path from the root of the document, or a step from a mapping of it */
  constructor(value: unknown, place: Path | Step) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new FieldError(pathOf(place), isNot(value, 'a mapping'))
    }
    this.#values = value as Readonly<Record<string, unknown>>
    this.#place = place
  }

  get path(): Path {
    return pathOf(this.#place)
  }

  /** Whatever it is; undefined where it is absent. */
  value(name: string): unknown {
    return this.#get(name)
  }

  has(name: string): boolean {
    return this.#get(name) !== undefined
  }

  /** An absent mapping is an empty one. */
  child(name: string): Fields {
    return new Fields(this.#get(name) ?? NOTHING, { from: this, name })
  }

  children(name: string): readonly Fields[] {
    return this.list(name).map((item, index) => new Fields(item, { from: this, name, index }))
  }

  text(name: string, whenAbsent: string): string {
    return this.optionalText(name) ?? whenAbsent
  }

  optionalText(name: string): string | undefined {
    const value = this.#get(name)
    if (value === undefined || typeof value === 'string') return value
    throw this.#wrong(name, value, 'a string; put it in quotes')
  }

  requiredText(name: string): string {
    const value = this.optionalText(name)
    if (value) return value
    throw new FieldError([...this.path, name], 'has no value, but is required')
  }

  oneOf<T extends string>(name: string, allowed: readonly T[], whenAbsent?: T): T {
    const value = this.#get(name) ?? whenAbsent
    return checkOneOf(value, allowed, () => [...this.path, name])
  }

  integer(name: string, whenAbsent: number): number {
    return this.optionalInteger(name) ?? whenAbsent
  }

  optionalInteger(name: string): number | undefined {
    const value = this.#get(name)
    if (value === undefined || (typeof value === 'number' && Number.isInteger(value))) return value
    throw this.#wrong(name, value, 'a whole number')
  }

  flag(name: string, whenAbsent: boolean): boolean {
    const value = this.#get(name) ?? whenAbsent
    if (typeof value === 'boolean') return value
    throw this.#wrong(name, value, 'true or false')
  }

  texts(name: string): readonly string[] {
    return this.list(name).map((item, i) => {
      if (typeof item === 'string') return item
      throw new FieldError([...this.path, name, i], isNot(item, 'a string; put it in quotes'))
    })
  }

  /** Labels or annotations. */
  textMap(name: string): Readonly<Record<string, string>> {
    const child = this.child(name)
    const names = Object.keys(child.#values)
    return Object.fromEntries(names.map((key) => [key, child.text(key, '')]))
  }

  /** An absent list is an empty one. */
  list(name: string): readonly unknown[] {
    const value = this.#get(name) ?? NO_ITEMS
    if (Array.isArray(value)) return value
    throw this.#wrong(name, value, 'a list')
  }

  #get(name: string): unknown {
    return Object.hasOwn(this.#values, name) ? (this.#values[name] ?? undefined) : undefined
  }

  #wrong(name: string, value: unknown, expected: string): FieldError {
    return new FieldError([...this.path, name], isNot(value, expected))
  }
}

/** What stands for a mapping and a list that are absent. */
const NOTHING: object = Object.freeze({})
const NO_ITEMS: readonly unknown[] = Object.freeze([])

function pathOf(place: Path | Step): Path {
  if (!('from' in place)) return place
  const { from, name, index } = place
  return index === undefined ? [...from.path, name] : [...from.path, name, index]
}

/** Throws a FieldError if the value is not one of those allowed. */
export function checkOneOf<T extends string>(value: unknown, allowed: readonly T[], path: () => Path): T {
  const found = allowed.find((option) => option === value)
  if (found !== undefined) return found
  throw new FieldError(path(), isNot(value, `one of ${allowed.join(', ')}`))
}

/** `"80" is not a whole number` */
function isNot(value: unknown, expected: string): string {
  if (value === undefined || value === null) return `has no value, but must be ${expected}`
  if (Array.isArray(value)) return `a list is not ${expected}`
  if (typeof value === 'object') return `a mapping is not ${expected}`
  return `${JSON.stringify(value)} is not ${expected}`
}
