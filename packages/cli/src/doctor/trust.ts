import { type Bus, untoldEntries, untoldText } from '@passover/bus'
import { count } from '../text.js'
import { broken, type Check, ok } from './check.js'

const SHOWN = 5

/** Checks that the registry and the policy in force agree with their events. */
export async function checkTrust(bus: Bus): Promise<Check[]> {
  const untold = await untoldEntries(bus)
  if (untold.length === 0) return [ok('events', 'registry and policy agree with their events')]
  const shown = untold.slice(0, SHOWN).map(untoldText).join('; ')
  const more = untold.length > SHOWN ? `; ${count(untold.length - SHOWN, 'more entry', 'more entries')}` : ''
  const mend = 'find out who wrote it; passover agents set or passover policy push writes it again, with its event'
  return [broken('events', `${shown}${more}: readers skip it`, mend)]
}
