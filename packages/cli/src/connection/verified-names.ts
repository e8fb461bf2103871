import type { Bus } from '@passover/bus'
import { askNameVerification, type NameVerification } from '@passover/operator'
import { nameMarks } from '@passover/sdk/internal/format'
import type { Context } from './context.js'
import { verifiesNames } from './settings.js'

export type { NameVerification }

/** Returns whether names on this server are verified. Asks the audit service; if it does not answer, the credentials in use decide. */
export async function readNameVerification(bus: Bus, { person, server }: Pick<Context, 'person' | 'server'>): Promise<NameVerification> {
  return (await askNameVerification(bus)) ?? (verifiesNames(server(), person) ? {} : { unverified: true })
}

/** Formats the name of a person: `maria`, `maria (unverified)`. */
export function formatPerson(name: string, { unverified }: NameVerification): string {
  return `${name}${nameMarks({ unverified })}`
}
