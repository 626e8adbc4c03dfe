/**
 * Packages of other Debian suites than this machine's, fetched from the mirrors that its own apt sources name, without a
 * trace in its apt: lists, status and downloads are in a folder of ours. The rest of its configuration (proxies, say) holds.
 */

import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { output, text } from './command.ts'
import { MachineError, Unavailable } from './failure.ts'

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** Lists are asked for anew when they are older: point releases come every few weeks. */
const LISTS_FRESH_MS = 24 * 3600 * 1000

/**
 * The mirror of a suite, among the addresses of archives that apt uses: security suites have an archive of their own.
 * Undefined: none of them has it. Pure.
 */
export function mirrorOf(suite: string, archives: readonly string[]): string | undefined {
  const wanted = suite.endsWith('-security') ? /\/debian-security\/?$/ : /\/debian\/?$/
  return archives.find((archive) => wanted.test(archive))
}

/**
 * The newest package of a kernel: of `linux-image-6.1.0-57-cloud-amd64` and others the one with the highest version
 * behind the beginning `release`, which ends at a full stop or hyphen: 6.1 is not 6.12. Pure.
 */
export function newestImage(packages: readonly string[], release: string): string | undefined {
  return packages
    .filter((name) => /^linux-image-\d.*-cloud-amd64$/.test(name) && !name.includes('unsigned'))
    .filter(
      (name) => name.startsWith(`linux-image-${release}.`) || name.startsWith(`linux-image-${release}-`),
    )
    .sort((one, other) => one.localeCompare(other, 'en', { numeric: true }))
    .at(-1)
}

/** One suite of the archive. */
export class Suite {
  readonly name: string
  readonly #options: readonly string[]
  readonly #folder: string

  private constructor(name: string, folder: string) {
    this.name = name
    this.#folder = folder
    const options = {
      'Dir::Etc::SourceList': join(folder, 'sources.list'),
      'Dir::Etc::SourceParts': '/dev/null',
      'Dir::Etc::PreferencesParts': '/dev/null',
      'Dir::State::Lists': join(folder, 'lists'),
      'Dir::State::status': join(folder, 'status'),
      'Dir::Cache': join(folder, 'cache'),
      'APT::Sandbox::User': 'root',
    }
    this.#options = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`])
  }

  /** Brings the lists up to date, if they are old. Throws Unavailable when there is no mirror, or it has no such suite. */
  static open(name: string, folder: string): Suite {
    if (!existsSync('/usr/bin/apt-get'))
      throw new Unavailable('this machine has no apt-get: it is not Debian')
    if (!existsSync(KEYRING)) throw new Unavailable(`${KEYRING} is missing: install debian-archive-keyring`)
    const archives = text(['apt-get', 'indextargets', '--format', '$(REPO_URI)']).split('\n')
    const mirror = mirrorOf(name, archives)
    if (mirror === undefined) {
      throw new Unavailable(`the apt sources of this machine name no mirror for ${name}`)
    }
    for (const part of ['lists/partial', 'cache/archives/partial']) {
      mkdirSync(join(folder, part), { recursive: true })
    }
    writeFileSync(join(folder, 'status'), '')
    const line = `deb [signed-by=${KEYRING}] ${mirror} ${name} main\n`
    writeFileSync(join(folder, 'sources.list'), line)
    const suite = new Suite(name, folder)
    suite.#update(folder)
    return suite
  }

  #update(folder: string): void {
    const stamp = join(folder, 'updated')
    const age = existsSync(stamp) ? Date.now() - statSync(stamp).mtimeMs : Number.POSITIVE_INFINITY
    if (age < LISTS_FRESH_MS) return
    try {
      output(['apt-get', ...this.#options, '-o', 'APT::Update::Error-Mode=any', 'update', '-qq'])
      writeFileSync(stamp, '')
    } catch (error) {
      if (!(error instanceof MachineError)) throw error
      // What was fetched before is as good as yesterday.
      if (existsSync(stamp)) return
      throw new Unavailable(`the mirror does not give the suite ${this.name}: ${lastLine(error)}`)
    }
  }

  /** The newest kernel of a release, as the packages that hold it. Since 7.x its parts are packages of their own. */
  kernelPackages(release: string): { readonly version: string; readonly packages: readonly string[] } {
    const names = this.#names('^linux-image-')
    const image = newestImage(names, release)
    if (image === undefined) throw new Unavailable(`the suite ${this.name} has no kernel ${release}`)
    const version = image.slice('linux-image-'.length)
    const parts = ['base', 'binary', 'modules'].map((part) => `linux-${part}-${version}`)
    const isSplit = this.#names(`^linux-modules-${version.replaceAll('+', '\\+')}$`).length > 0
    return { version, packages: isSplit ? parts : [image] }
  }

  /** The version that the suite has of a package. Throws Unavailable where it has none. */
  versionOf(name: string): string {
    const version = /^Version: (.+)$/m.exec(text(['apt-cache', ...this.#options, 'show', name]))?.[1]
    if (version === undefined) throw new Unavailable(`the suite ${this.name} has no package ${name}`)
    return version
  }

  /** Downloads packages and unpacks them into a folder; nothing is installed. */
  unpack(packages: readonly string[], into: string): void {
    const downloads = join(this.#folder, 'downloads')
    rmSync(downloads, { recursive: true, force: true })
    mkdirSync(downloads)
    try {
      output(['apt-get', ...this.#options, 'download', '-qq', ...packages], { cwd: downloads })
    } catch (error) {
      if (!(error instanceof MachineError)) throw error
      throw new Unavailable(`the mirror does not give ${packages.join(', ')}: ${lastLine(error)}`)
    }
    mkdirSync(into, { recursive: true })
    const each = 'for deb in *.deb; do dpkg-deb --fsys-tarfile "$deb" | tar x -C "$0"; done'
    output(['bash', '-o', 'pipefail', '-ec', each, into], { cwd: downloads })
    rmSync(downloads, { recursive: true })
  }

  #names(pattern: string): string[] {
    const found = text(['apt-cache', ...this.#options, 'search', '--names-only', pattern])
    return found.split('\n').flatMap((line) => line.split(' ', 1).filter((name) => name !== ''))
  }
}

function lastLine(error: Error): string {
  return error.message.trimEnd().split('\n').at(-1) ?? ''
}
