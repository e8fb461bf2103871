import { idTime, type PassError } from '@passover/schemas'
import { passError } from '../errors.js'
import type { AdmitInput } from './types.js'

/** Milliseconds by which an id's time may lie ahead of the server's. */
const FUTURE_MS = 60_000

/** Returns E005 if subject and body differ, or if the id is expired or from the future (docs/architecture/protocol.md#ids). */
export function requestFault(input: AdmitInput): PassError | undefined {
  const { request, subject } = input
  if (request.originating_agent_id !== subject.originator) {
    return differs('originating_agent_id', request.originating_agent_id, subject.originator)
  }
  if (request.subagent_id !== subject.subagent) return differs('subagent_id', request.subagent_id, subject.subagent)
  return idFault(input)
}

function differs(field: string, body: string, subject: string): PassError {
  return passError('E005', `The body's ${field} is ${body}, but the request was published as ${subject}`, { field, body, subject })
}

function idFault({ request, requested_at, now, id_window_ms }: AdmitInput): PassError | undefined {
  const made = idTime(request.id)
  const age = now - (made ?? requested_at)
  const details = { id: request.id, server_time: now, id_time: made ?? requested_at, id_window_ms }
  if (age > id_window_ms) {
    const { originating_agent_id: originator, subagent_id: subagent } = request
    const message = `The id ${request.id} has expired: it is ${age} ms old, and the id window is ${id_window_ms} ms. If a pass has this id, \`passover show ${request.id}\` shows its result`
    return passError('E005', message, {
      ...details,
      expired: true,
      result: { ask: `ask.${originator}`, originator, subagent, id: request.id },
    })
  }
  if (made !== undefined && -age > FUTURE_MS) {
    return passError('E005', `The id ${request.id} is ${-age} ms ahead of the server's clock; create ids with the server's time`, details)
  }
  return undefined
}

/** Returns E013 for an originator that may not start this pass (docs/architecture/protocol.md#parents-and-chains). */
export function originatorFault({ request, agents }: AdmitInput): PassError | undefined {
  const originator = request.originating_agent_id
  if (!agents.originator && !agents.open) {
    const mend = `to let it originate passes: passover agents add ${originator} --originates always --no-subagent`
    return passError('E013', `${originator} is not registered`, { agent: originator, mend })
  }
  if (agents.originator?.revoked_at !== undefined) {
    const mend = `to give it access again: passover auth add agent ${originator}`
    return passError('E013', `The credentials of ${originator} were revoked`, { agent: originator, mend })
  }
  const originates = agents.originator?.roles.originates ?? 'always'
  const mend = `to let it originate passes: passover agents set ${originator} --originates always`
  if (originates === 'never') return passError('E013', `${originator} may not originate passes`, { agent: originator, originates, mend })
  if (originates === 'within_a_pass' && !request.parent) {
    return passError('E013', `${originator} may originate passes only while it works on one, and the request names no parent`, {
      agent: originator,
      originates,
      mend,
    })
  }
  return undefined
}

/** Returns E001 for a subagent that does not exist or takes no passes. */
export function subagentFault({ request, agents }: AdmitInput): PassError | undefined {
  const subagent = request.subagent_id
  if (!agents.subagent) return passError('E001', `Agent ${subagent} is not registered`, { agent: subagent })
  if (!agents.subagent.roles.subagent) {
    const mend = `to let it receive passes: passover agents set ${subagent} --subagent`
    return passError('E001', `${subagent} is not a subagent`, { agent: subagent, mend })
  }
  return undefined
}
