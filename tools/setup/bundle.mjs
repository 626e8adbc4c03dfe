#!/usr/bin/env node
/**
 * `node tools/setup/bundle.mjs ENTRY OUTFILE`: a program and all its packages in a few files: OUTFILE, and beside it
 * `NAME-HASH.mjs` for each part that is loaded only when it is needed.
 */

import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { build } from 'esbuild'

/** Marks what the plugin itself asks to resolve. */
const RESOLVING = Symbol('resolving')

/**
 * The client for Kubernetes has a class for every type of the API, and does not say that loading them does nothing but
 * cost memory: 10 MB. Told so of the few files through which they all come, esbuild leaves them out. (If another version
 * has them in other files, the bundle is larger, and works.)
 *
 * @type {import('esbuild').Plugin}
 */
const onlyWhatIsUsed = {
  name: 'only what is used of the client for Kubernetes',
  setup: ({ onResolve, resolve }) => {
    onResolve(
      { filter: /^(@kubernetes\/client-node|\.\/(gen\/index|models\/all|types\/ObjectParamAPI)\.js)$/ },
      async ({ path, pluginData, ...from }) => {
        if (pluginData === RESOLVING) return undefined
        const { importer, resolveDir, kind } = from
        const resolved = await resolve(path, { importer, resolveDir, kind, pluginData: RESOLVING })
        return { ...resolved, sideEffects: false }
      },
    )
  },
}

/** CommonJS packages inside an ES module still call `require` for Node's own modules. */
const REQUIRE =
  "import { createRequire as nodeCreateRequire } from 'node:module'; const require = nodeCreateRequire(import.meta.url);"

/**
 * @param {string} entry
 * @param {string} name
 * @param {string} folder
 */
async function compile(entry, name, folder) {
  const { outputFiles } = await build({
    entryPoints: [{ in: entry, out: name }],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    chunkNames: `${name}-[hash]`,
    write: false,
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node22.18',
    // It finds its prebuilt library beside itself.
    external: ['koffi'],
    plugins: [onlyWhatIsUsed],
    banner: { js: REQUIRE },
    // V8 keeps the source, at two bytes a character where one character, if only in a comment, is not of Latin-1.
    minifyWhitespace: true,
    legalComments: 'none',
    logLevel: 'warning',
  })
  return outputFiles
}

/**
 * A running program never sees half a file: the parts have names of their own, and the one that names them comes last.
 *
 * @param {string} entry
 * @param {string} outfile
 */
async function bundle(entry, outfile) {
  const folder = dirname(outfile)
  const name = basename(outfile, '.mjs')
  const files = await compile(entry, name, folder)
  mkdirSync(folder, { recursive: true })
  const parts = files.filter(({ path }) => path !== outfile)
  for (const { path, contents } of parts) if (!existsSync(path)) replace(path, contents)
  for (const { path, contents } of files) if (path === outfile) replace(path, contents)
  const wanted = new Set(parts.map(({ path }) => basename(path)))
  for (const file of readdirSync(folder)) {
    const isPart = file.startsWith(`${name}-`) && file.endsWith('.mjs')
    if (isPart && !wanted.has(file)) rmSync(join(folder, file), { force: true })
  }
}

/**
 * @param {string} path
 * @param {Uint8Array} contents
 */
function replace(path, contents) {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}`)
  try {
    writeFileSync(temporary, contents)
    renameSync(temporary, path)
  } finally {
    rmSync(temporary, { force: true })
  }
}

const [entry, outfile] = process.argv.slice(2)
if (entry === undefined || outfile === undefined) {
  console.error('usage: bundle.mjs ENTRY OUTFILE')
  process.exit(2)
}
// What went wrong with the sources has been printed.
await bundle(entry, resolve(outfile)).catch((error) => {
  if (!('errors' in error)) console.error(error)
  process.exit(1)
})
