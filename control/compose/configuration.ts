/** The configuration file: read, written, and looked at again. */

import { readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { type Configuration, parseConfiguration } from '../config/configuration.ts'
import { kubeProxyDocument } from '../config/configz.ts'
import type { ConfigFile, RunOptions } from '../config/options.ts'
import { Refusal } from '../config/refusal.ts'
import { yamlText } from '../source/files/yaml.ts'

/** Throws a Refusal with everything that is wrong with them. */
export function readConfiguration(paths: readonly string[]): Configuration {
  return parseConfiguration(paths.map((path) => ({ path, text: textOf(path) })))
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Refusal(`--config ${path}: it cannot be read: ${reason(error)}`, { cause: error })
  }
}

/** Writes what would be used, so that `--config` reads it. Throws a Refusal where that cannot be written. */
export function writeConfiguration(options: RunOptions, path: string): void {
  const mode = options.proxyMode === 'auto' ? '' : options.proxyMode
  try {
    writeFileSync(path, yamlText(kubeProxyDocument(options, mode)))
  } catch (error) {
    throw new Refusal(`--write-config-to ${path}: it cannot be written: ${reason(error)}`, { cause: error })
  }
}

/** The file says something else than it did when the daemon began. */
export class ChangedConfigurationError extends Error {
  readonly code = 'ERR_SLUICE_CONFIGURATION_CHANGED'

  constructor(path: string) {
    super(`the content of the configuration file ${path} has changed: this ends, to be started again with it`)
    this.name = 'ChangedConfigurationError'
  }
}

/**
 * Whether the file says something else than when it was read. As a ConfigMap changes, the path leads to another file; what
 * is not there at all is about to be, or has been taken away from a daemon that goes on with what it has.
 */
export async function isChanged({ path, text }: ConfigFile): Promise<boolean> {
  try {
    return (await readFile(path, 'utf8')) !== text
  } catch {
    return false
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
