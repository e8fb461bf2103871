import { type HealthReport, healthReport } from '@passover/schemas'
import { ago } from '../duration.js'
import { broken, type Check, look, ok } from './check.js'

const ANSWER_MS = 3_000

/** How the project's `passover up` says that it is. Nothing where none runs: that others say. */
export async function checkUp(health: string | undefined, now: number): Promise<Check[]> {
  if (health === undefined) return []
  try {
    const answer = await fetch(new URL('/readyz', health), { signal: AbortSignal.timeout(ANSWER_MS) })
    return renderHealth(healthReport.parse(await answer.json()), now)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return [broken('up', `passover up does not say how it is (${why}): its event loop may stand still`, 'stop it and start it again')]
  }
}

export function renderHealth({ process, ready, checks }: HealthReport, now: number): Check[] {
  const wrong = checks
    .filter(({ state }) => state !== 'ok')
    .map((check) => {
      const text = `${check.name}: ${check.what} (since ${ago(check.since, now)})`
      const mend = check.restart_helps ? 'stop it and start it again' : 'passover doctor tells more; it goes on trying'
      return (check.weight === 'needed' ? broken : look)('up', text, mend)
    })
  if (wrong.length > 0) return wrong
  const done = checks.flatMap(({ name, did }) => (did ? [`${name}: ${did.what} (${ago(did.at, now)})`] : []))
  return [ok('up', `${process} is ${ready ? 'ready' : 'not ready'}${done.length > 0 ? `; it mended: ${done.join('; ')}` : ''}`)]
}
