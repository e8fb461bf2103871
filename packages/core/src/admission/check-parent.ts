import type { PassError, RequestControl } from '@passover/schemas'
import { passError } from '../errors.js'
import type { AdmitInput, ParentPass } from './types.js'

/** Limits that the parent sets for a child. Empty for a root pass. */
export interface ParentBound {
  parent?: ParentPass
  /** Deadline of the parent, server ms. */
  deadline?: number
}

/**
 * Returns E013 unless the named parent is open, the originator is its subagent, and return_id and proof belong to its newest attempt (I3, rule 3;
 * docs/architecture/protocol.md#parents-and-chains: the last step that counts).
 */
export function parentFault({ request, parent, now }: AdmitInput): PassError | undefined {
  const named = request.parent
  if (!named) return undefined
  const deny = (why: string) =>
    passError('E013', `Parent refused: ${why}`, { parent: `${named.originator}/${named.subagent}/${named.id}`, why })
  if (named.subagent !== request.originating_agent_id) return deny('only its subagent may request child passes')
  if (!parent || !isNamed(parent, named)) return deny('it does not exist')
  if (parent.journal.state !== 'open') return deny('it is not open')
  if (parent.control.return_id !== named.return_id) return deny('wrong return_id')
  if (parent.journal.valid !== named.proof) return deny('the proof does not belong to its newest attempt')
  if (parent.journal.deadline <= now) return deny('its deadline has passed')
  return undefined
}

function isNamed({ control }: ParentPass, named: NonNullable<RequestControl['parent']>): boolean {
  return control.id === named.id && control.originating_agent_id === named.originator && control.subagent_id === named.subagent
}

/** Returns the parent and its deadline. Call it only after `parentFault` returned `undefined`. */
export function parentBound({ request, parent }: AdmitInput): ParentBound {
  if (!request.parent || parent?.journal.state !== 'open') return {}
  return { parent, deadline: parent.journal.deadline }
}
