/** `http.ts URL METHOD`: prints what a server answers, as JSON. A refusal is an answer too. */

import { patience } from '../../cluster/patience.ts'

const [url = '', method = 'GET'] = process.argv.slice(2)

/** Far beyond what an answer takes. */
const LIMIT_MS = 5000

async function answer(): Promise<object> {
  try {
    const response = await fetch(url, { method, signal: AbortSignal.timeout(patience(LIMIT_MS)) })
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: await response.text(),
    }
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    return { error: code ?? String(error) }
  }
}

console.log(JSON.stringify(await answer()))
