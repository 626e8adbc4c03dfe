/**
 * `npm run conformance`: the table of kube-proxy's behaviour against the kernel, or against the model alone. See `USAGE`
 * in options.ts. The last line counts the rows. Exit code 1 when one failed, 2 for arguments that make no sense.
 */

import { ROWS, ROWS_BY_ID } from './instances.ts'
import { runModel } from './model/run.ts'
import { type Options, parseOptions, USAGE } from './options.ts'
import { type Report, reportJson, reportText } from './report.ts'

async function run(options: Options): Promise<Report> {
  const rows = ROWS.filter(({ id }) => options.only?.has(id) ?? true)
  if (options.dataplane === 'model') return await runModel({ ...options, rows })
  const { runWire } = await import('./wire/run.ts')
  return await runWire({
    ...options,
    dataplane: options.dataplane,
    rows,
    progress: (text) => console.error(`conformance: ${text}`),
  })
}

function readOptions(): Options | undefined {
  try {
    return parseOptions(process.argv.slice(2))
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exitCode = 2
    return undefined
  }
}

const options = readOptions()
if (options !== undefined) {
  const report = await run(options)
  console.log(options.json ? reportJson(report) : reportText(report, ROWS_BY_ID))
  if (report.results.some(({ result }) => result === 'failed')) process.exitCode = 1
}
