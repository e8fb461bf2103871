import { type CustodyLog, isExpiry, requestNamed } from '@passover/core'
import { type Fact, isFirst, SYSTEM } from '@passover/schemas'
import type { PassToDelete } from '../deletion/deletion-eligibility.js'
import { hasNoFirstStep, mayBegin } from '../pass/load-pass.js'
import { sessionClaimOf } from './id-history.js'
import { findIdUses, type IdLookupDeps, messagesAt } from './id-lookup.js'

/** True if a pass must stay for now: it is held, or the erasure of its session is pending. */
export async function isHeld(custody: CustodyLog, deps: IdLookupDeps, pass: PassToDelete): Promise<boolean> {
  const { key, session, sequences } = pass
  if (custody.stays(key, session)) return true
  if (session !== undefined || !custody.needsSessions) return false
  const said = await sessionsSaid(deps, pass)
  if (said) return said.some((one) => custody.stays(key, one))
  const uses = await findIdUses(deps, key)
  const own = uses.filter(({ messages }) => messages.some(({ stored }) => sequences.includes(stored.sequence)))
  return own.some(({ session, claimed }) => custody.stays(key, session) || custody.stays(key, claimed))
}

/**
 * Returns the sessions of a pass from these messages only, or `undefined` if everything under its id must be read. Agents can cause any number of
 * refusals and store messages under ids that were never requested; loading each of these passes takes milliseconds.
 */
async function sessionsSaid(deps: IdLookupDeps, { key, sequences }: PassToDelete): Promise<string[] | undefined> {
  const wanted = new Set(sequences)
  const messages = await messagesAt(deps, wanted, true)
  if (messages.size < wanted.size) return undefined
  const { subjects } = deps.bus
  const facts = [...messages.values()].map((stored) => subjects.toFact(stored))
  if (!facts.some(asksOrBegins)) return (await hasNoFirstStep(deps, key)) ? [] : undefined
  if (!facts.every(isRequestOrRefusal)) return undefined
  const named = new Set(facts.map((fact) => (fact.type === 'step' ? (requestNamed(fact)?.sequence ?? fact.sequence) : fact.sequence)))
  const others = new Set([...named].filter((sequence) => !messages.has(sequence)))
  for (const [sequence, stored] of await messagesAt(deps, others, true)) messages.set(sequence, stored)
  const sessions = [...named].flatMap((sequence) => {
    const stored = messages.get(sequence)
    const said = stored && sessionClaimOf(key, { stored, fact: subjects.toFact(stored) }, deps.rules)
    // A child belongs to the session of its root, whatever its request says.
    return said?.session !== undefined && !said.parent ? [said.session] : []
  })
  return sessions.length === named.size ? sessions : undefined
}

function asksOrBegins(fact: Fact): boolean {
  return fact.type === 'request' || mayBegin(fact)
}

/** True for a request, or for a refusal other than "expired", which concerns the pass that had the id before. */
function isRequestOrRefusal(fact: Fact): boolean {
  if (fact.type === 'request') return true
  return fact.type === 'step' && fact.kind === 'return' && fact.by === SYSTEM && isFirst(fact) && !isExpiry(fact)
}
