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

type Mapping = Readonly<Record<string, unknown>>

/** A mapping in a manifest, with the way to it. */
export class Fields {
  #values: Mapping
  /** The path from the root, or the mapping around it: the path itself is needed only where something is wrong. */
  readonly #from: Path | Fields
  readonly #name: string
  #index: number | undefined

  /** @param from the path from the root of the document, or the mapping that has it under a name, and there in a list */
  constructor(value: unknown, from: Path | Fields, name = '', index?: number) {
    this.#from = from
    this.#name = name
    this.#index = index
    this.#values = asMapping(value, this)
  }

  get path(): Path {
    if (!(this.#from instanceof Fields)) return this.#from
    const path = [...this.#from.path, this.#name]
    return this.#index === undefined ? path : [...path, this.#index]
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
    return new Fields(this.#get(name) ?? NOTHING, this, name)
  }

  /** What `read` makes of each mapping in a list. The fields it is given are those of the next mapping afterwards. */
  children<T>(name: string, read: (fields: Fields) => T): readonly T[] {
    const list = this.list(name)
    if (list.length === 0) return NO_ITEMS
    const fields = new Fields(NOTHING, this, name)
    return list.map((item, index) => {
      fields.#index = index
      fields.#values = asMapping(item, fields)
      return read(fields)
    })
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

  /** Without a default, one of them must be there. */
  oneOf<T extends string>(name: string, allowed: readonly T[], whenAbsent?: T): T {
    const given = this.#get(name)
    const value = given === undefined || given === '' ? whenAbsent : given
    const found = allowed[allowed.indexOf(value as T)]
    if (found !== undefined) return found
    throw this.#wrong(name, value, `one of ${allowed.join(', ')}`)
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
    const list = this.list(name)
    for (let i = 0; i < list.length; i++) {
      const item = list[i]
      if (typeof item !== 'string')
        throw new FieldError([...this.path, name, i], isNot(item, 'a string; put it in quotes'))
    }
    return list as readonly string[]
  }

  /** Labels or annotations. All must be texts; those whose names `isKept` are returned. */
  textMap(name: string, isKept: (name: string) => boolean): Readonly<Record<string, string>> {
    if (!this.has(name)) return NO_TEXTS
    const child = this.child(name)
    let kept: [name: string, text: string][] | undefined
    for (const key of Object.keys(child.#values)) {
      const text = child.text(key, '')
      if (isKept(key)) kept = [...(kept ?? []), [key, text]]
    }
    return kept === undefined ? NO_TEXTS : Object.fromEntries(kept)
  }

  /** An absent list is an empty one. */
  list(name: string): readonly unknown[] {
    const value = this.#get(name) ?? NO_ITEMS
    if (Array.isArray(value)) return value
    throw this.#wrong(name, value, 'a list')
  }

  /** No field that is asked for is called like what every object inherits. */
  #get(name: string): unknown {
    return this.#values[name] ?? undefined
  }

  #wrong(name: string, value: unknown, expected: string): FieldError {
    return new FieldError([...this.path, name], isNot(value, expected))
  }
}

/** What stands for a mapping, texts and a list that are absent. */
const NOTHING: Mapping = Object.freeze({})
const NO_TEXTS: Readonly<Record<string, string>> = Object.freeze({})
const NO_ITEMS: readonly never[] = Object.freeze([])

function asMapping(value: unknown, where: { readonly path: Path }): Mapping {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Mapping
  throw new FieldError(where.path, isNot(value, 'a mapping'))
}

/** `"80" is not a whole number` */
function isNot(value: unknown, expected: string): string {
  if (value === undefined || value === null) return `has no value, but must be ${expected}`
  if (Array.isArray(value)) return `a list is not ${expected}`
  if (typeof value === 'object') return `a mapping is not ${expected}`
  return `${JSON.stringify(value)} is not ${expected}`
}
