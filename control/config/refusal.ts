/** It cannot be done like this: an option, a privilege or the node must change first. Exit code 2. */
export class Refusal extends Error {
  readonly code = 'ERR_SLUICE_REFUSED'

  /** @param message One line: what it is, where, and what to do. */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'Refusal'
  }
}
