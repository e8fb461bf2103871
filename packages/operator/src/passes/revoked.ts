import { firstRevoked } from '@passover/core'
import type { AnsweredPass, InboxItem, RevokedAgent } from '@passover/schemas'
import { dateTime } from '@passover/sdk/internal/format'
import { Failure } from '../errors.js'

/** Agents whose credentials were revoked, with the time in ms, if the caller knows more than the audit service. */
export type KnownRevoked = ReadonlyMap<string, number>

/** Returns the agents of a chain, from the originator of the root pass to the subagent of this pass. */
export function chainOf({ key, control }: Pick<AnsweredPass, 'key' | 'control'>): string[] {
  const ancestors = control?.ancestors
  const above = Array.isArray(ancestors) && ancestors.every((name) => typeof name === 'string') ? (ancestors as string[]) : [key.originator]
  return [...above, key.subagent]
}

/** Returns the inbox item, marked with a revoked agent of its chain if only the caller knows about the revocation. */
export function marked<Item extends Pick<InboxItem, 'chain' | 'revoked'>>(item: Item, known: KnownRevoked): Item {
  const revoked = item.revoked ?? firstRevoked(item.chain, known)
  return revoked ? { ...item, revoked } : item
}

/** Returns the pass, marked in the same way, with its inbox item. */
export function markedPass(pass: AnsweredPass, known: KnownRevoked): AnsweredPass {
  const revoked = pass.revoked ?? firstRevoked(chainOf(pass), known)
  return { ...pass, ...(revoked && { revoked }), ...(pass.due && { due: marked(pass.due, known) }) }
}

/** Formats a revocation: `credentials of mallory were revoked (2026-11-30 12:09:13)`. */
export function revokedText({ agent, at }: RevokedAgent): string {
  return `credentials of ${agent} were revoked (${dateTime(at)})`
}

/** Refuses to approve work that a revoked agent requested or worked on. Throws Failure E013 (exit 4). */
export function refuseRevoked({ row: { id }, revoked }: Pick<AnsweredPass, 'row' | 'revoked'>, command: 'approve' | 'apply'): void {
  if (!revoked) return
  throw new Failure('E013', `${revokedText(revoked)}, and it takes part in ${id}: nothing was approved`, {
    hint: `to see the pass: passover show ${id}; to ${command} it anyway: passover ${command} ${id} --despite-revocation (over HTTP: "despite_revocation": true); to cancel all passes from ${revoked.agent}: passover cancel --from ${revoked.agent} --all`,
    exit: 4,
  })
}
