/** Where the parts of this dataplane say what happened. A logger fits; tests gather the lines. */

export interface Report {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
}
