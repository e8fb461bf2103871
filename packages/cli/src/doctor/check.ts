import { CliFailure } from '../errors.js'

/** Result of one check. */
export interface Check {
  name: string
  state: 'ok' | 'look' | 'broken'
  text: string
  /** Command or step that fixes it. */
  mend?: string
}

export function ok(name: string, text: string): Check {
  return { name, state: 'ok', text }
}

export function warning(name: string, text: string, mend: string): Check {
  return { name, state: 'look', text, mend }
}

export function broken(name: string, text: string, mend: string): Check {
  return { name, state: 'broken', text, mend }
}

/** Returns an answer of the audit service, or `undefined` if it does not answer in time: another check reports whether it answers at all. */
export async function ifAnswered<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof CliFailure) return undefined
    throw error
  }
}
