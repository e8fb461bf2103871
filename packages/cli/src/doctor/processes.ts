import { errorText, type HealthReport, healthReport } from '@passover/schemas'
import { ago, duration } from '../terminal/duration.js'
import { broken, type Check, ok, warning } from './check.js'

const ANSWER_TIMEOUT_MS = 3_000

/** Reads the health of the project's `passover up`. Returns no check if none runs, because other checks report that. */
export async function checkUp(health: string | undefined, now: number): Promise<Check[]> {
  if (health === undefined) return []
  try {
    const answer = await fetch(new URL('/readyz', health), { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    return renderHealth(healthReport.parse(await answer.json()), now)
  } catch (error) {
    const why = errorText(error, 'its answer')
    return [broken('up', `passover up does not report its health (${why}): its event loop may be blocked`, 'restart it')]
  }
}

/** Reads the health of the gateway, if an address is given. */
export async function checkGateway(address: string | undefined, now: number): Promise<Check[]> {
  if (address === undefined) return []
  try {
    const answer = await fetch(new URL('/readyz', address), { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const report = healthReport.safeParse(await answer.json().catch(() => undefined))
    if (report.success) return renderHealth(report.data, now, 'gateway')
    return [
      broken('gateway', `the server at ${address} is not a Passover gateway`, 'set --gateway to the address that passover gateway prints'),
    ]
  } catch (error) {
    const why = error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : String(error)
    return [broken('gateway', `no gateway answers at ${address}: ${why}`, 'to start one: passover gateway')]
  }
}

export function renderHealth({ process, ready, checks }: HealthReport, now: number, name = 'up'): Check[] {
  const wrong = checks
    .filter(({ state }) => state !== 'ok')
    .map((check) => {
      const text = `${check.name}: ${check.what} (for ${duration(now - check.since)})`
      const mend = check.restart_helps ? 'restart it' : 'it retries by itself; passover doctor shows details'
      return (check.weight === 'needed' ? broken : warning)(name, text, mend)
    })
  if (wrong.length > 0) return wrong
  const done = checks.flatMap(({ name, did }) => (did ? [`${name}: ${did.what} (${ago(did.at, now)})`] : []))
  return [ok(name, `${process} is ${ready ? 'ready' : 'not ready'}${done.length > 0 ? `; it repaired: ${done.join('; ')}` : ''}`)]
}
