import type { AnsweredPass, InboxItem, RevokedAgent } from '@passover/schemas'
import { dateTime } from '@passover/sdk/internal/format'
import { Failure } from '../errors.js'

/** Agents whose credentials were revoked, and when (ms), as far as the caller knows more than the audit. */
export type KnownRevoked = ReadonlyMap<string, number>

/** The agents from the root's originator down to the pass's own subagent. */
export function chainOf({ key, control }: Pick<AnsweredPass, 'key' | 'control'>): string[] {
  const ancestors = control?.ancestors
  const above = Array.isArray(ancestors) && ancestors.every((name) => typeof name === 'string') ? (ancestors as string[]) : [key.originator]
  return [...above, key.subagent]
}

/** Returns what waits, marked with a revoked agent of its chain that only the caller knows to be revoked. */
export function marked<Item extends Pick<InboxItem, 'chain' | 'revoked'>>(item: Item, known: KnownRevoked): Item {
  const revoked = item.revoked ?? revokedIn(item.chain, known)
  return revoked ? { ...item, revoked } : item
}

/** The first agent of a chain whose credentials were revoked. */
export function revokedIn(chain: readonly string[], known: KnownRevoked): RevokedAgent | undefined {
  for (const agent of chain) {
    const at = known.get(agent)
    if (at !== undefined) return { agent, at }
  }
  return undefined
}

/** `credentials of mallory were revoked (2026-11-30 12:09:13)` */
export function revokedText({ agent, at }: RevokedAgent): string {
  return `credentials of ${agent} were revoked (${dateTime(at)})`
}

/** Refuses to approve what a revoked agent asked for or worked on. Failure E013 (exit 4). */
export function refuseRevoked(id: string, revoked: RevokedAgent | undefined, command: 'approve' | 'apply'): void {
  if (!revoked) return
  throw new Failure('E013', `${revokedText(revoked)}, and it takes part in ${id}: nothing was approved`, {
    hint: `look at it: passover show ${id}; to ${command} it all the same: passover ${command} ${id} --despite-revocation (over HTTP: "despite_revocation": true); to end all that ${revoked.agent} asked for: passover cancel --from ${revoked.agent} --all`,
    exit: 4,
  })
}
