import { type ArchivedEvent, storedOf } from '@passover/archive'
import { splitContext } from '@passover/bus'
import { admit, approveHeld, completeOutput, countToken, modificationsIn, packControl, packOutput, requestDigest } from '@passover/core'
import {
  type AgentRecord,
  type HandlerResult,
  HEADER,
  keyText,
  type Part,
  type PassKey,
  type PassOverPreferences,
  passOverPreferences,
  policyDigest,
  type RequestControl,
  sha256,
  type WorkControl,
} from '@passover/schemas'
import { EventLog } from '../assertions/event-log.js'

export interface AskedPass {
  key: PassKey
  sequence: number
  time: number
  request: RequestControl
  parts: Part[]
  digest: string
}

/** A pass as its journal stands: what the next step is guarded by. */
export interface BegunPass extends AskedPass {
  control: WorkControl | undefined
  last: number
  work?: ArchivedEvent
  held?: ArchivedEvent
  returned?: ArchivedEvent
}

/** Passes as the services would have stored them, without a server: what verification and replay are tried on, at whatever size. */
export class RecordedStream extends EventLog {
  private readonly agents = new Map<string, AgentRecord>()
  private policy: { version: number; document: PassOverPreferences } = { version: 0, document: {} }
  /** Of what is asked from now on. */
  session = 'session-1'
  /** Of the installation. */
  id_window_ms = 3_600_000

  agent(name: string, roles: AgentRecord['roles'] = { originates: 'always', subagent: true }, more: Partial<AgentRecord> = {}): void {
    const record: AgentRecord = { name, roles, registered_by: 'paula', updated_at: this.time, ...more }
    this.agents.set(name, record)
    this.put(this.subjects.agent('paula'), { body: { v: 1, name, record } })
  }

  publishPolicy(said: PassOverPreferences): void {
    const document = passOverPreferences.parse(said)
    const base = this.policy.version
    this.policy = { version: base + 1, document }
    this.put(this.subjects.policy('paula'), { body: { v: 1, version: base + 1, base, document, digest: policyDigest(document) } })
  }

  /** As a dispatcher does whose settings alone give it a policy. */
  decideBy(said: PassOverPreferences): void {
    this.policy = { version: 0, document: passOverPreferences.parse(said) }
  }

  ask({ key, ...more }: { key: PassKey } & Partial<RequestControl>): AskedPass {
    const request: RequestControl = {
      id: key.id,
      originating_agent_id: key.originator,
      subagent_id: key.subagent,
      reason: 'review_changes',
      return_required: true,
      ...more,
    }
    const { parts } = splitContext({ session_id: `session-${key.id.slice(-1)}`, messages: [], files: [] } as never)
    const digest = requestDigest(request, parts)
    const { sequence, time } = this.put(this.subjects.request(key.subagent, key.originator), {
      headers: { [HEADER.id]: key.id, [HEADER.digest]: digest },
      body: { v: 1, request, parts, session_id: this.session },
    })
    return { key, sequence, time, request, parts, digest }
  }

  /** Admits, holds or refuses, as the policy in force says. */
  begin(asked: AskedPass, parent?: BegunPass): BegunPass {
    const { key, request, parts, digest, sequence, time } = asked
    const work = parent?.work
    const admission = admit({
      request,
      subject: key,
      request_sequence: sequence,
      requested_at: time,
      now: time + 1,
      parts,
      digest,
      session_id: this.session,
      reply_type: 'msgpack',
      agents: { originator: this.agents.get(key.originator), subagent: this.agents.get(key.subagent), open: true },
      parent:
        parent?.control && work
          ? {
              control: parent.control,
              journal: {
                state: 'open',
                attempt: 1,
                work: this.stepOf(work),
                deadline: work.time + parent.control.timeout_ms,
                last: parent.last,
                valid: parent.last,
              },
            }
          : undefined,
      policy: this.policy,
      id_window_ms: this.id_window_ms,
      return_id: `return-of-${key.id}`,
    })
    if (admission.kind === 'later') throw new Error('no counts here')
    if (admission.kind === 'refuse') {
      const returned = this.systemReturn({ ...asked, control: undefined, last: 0 }, admission.error)
      return { ...asked, control: undefined, last: returned.sequence, returned }
    }
    const { control } = admission
    if (admission.kind === 'hold') {
      const held = this.put(this.subjects.held(key), {
        headers: { ...this.stepHeaders(control), [HEADER.expires]: String(admission.expires_ms) },
        body: { v: 1, control: packControl(control, 'held'), expires_ms: admission.expires_ms },
        guard: [this.subjects.journal(key), 0],
      })
      return { ...asked, control, held, last: held.sequence }
    }
    return this.dispatch({ ...asked, control, last: 0 })
  }

  dispatch(pass: BegunPass): BegunPass {
    const approved = pass.held && pass.control ? approveHeld(pass.control, this.time) : undefined
    const control = approved?.kind === 'admit' ? approved.control : pass.control
    if (!control) throw new Error('nothing to dispatch')
    const work = this.put(this.subjects.work(pass.key, control.priority), {
      headers: { ...this.stepHeaders(control), [HEADER.timeout]: String(control.timeout_ms) },
      body: { v: 1, control: packControl(control, 'work'), parts: pass.parts },
      guard: [this.subjects.journal(pass.key), pass.last],
    })
    return { ...pass, control, work, last: work.sequence }
  }

  decide(
    { key }: BegunPass,
    {
      item,
      digest,
      modifications,
      verdict = 'approve',
      despite_revocation,
    }: { item: string; digest: string; modifications?: Record<string, string>; verdict?: string; despite_revocation?: boolean },
  ): ArchivedEvent {
    return this.put(this.subjects.decision(key, item, 'paula'), {
      headers: { [HEADER.verdict]: verdict, [HEADER.digest]: digest },
      body: { v: 1, verdict, digest, ...(modifications ? { modifications } : {}), ...(despite_revocation ? { despite_revocation } : {}) },
      guard: [this.subjects.decisions(key, item), 0],
    })
  }

  fence(pass: BegunPass, attempt: number): BegunPass {
    const { key } = pass
    const fence = this.put(this.subjects.fence(key, key.subagent), {
      headers: { [HEADER.attempt]: String(attempt) },
      body: { v: 1 },
      guard: [this.subjects.journal(key), pass.last],
    })
    return { ...pass, last: fence.sequence }
  }

  return(pass: BegunPass, result: HandlerResult = 'done', attempt = 1): BegunPass {
    const { control, key } = pass
    if (!control) throw new Error('nothing runs')
    const output = completeOutput(result, { control, attempt, started_at: this.time + 1, completed_at: this.time + 2 })
    const brief = packOutput(output as never, key)
    const returned = this.put(this.subjects.return(key, key.subagent), {
      headers: { [HEADER.attempt]: String(attempt), [HEADER.status]: output.status },
      body: brief ? { v: 1, brief } : { v: 1, output },
      guard: [this.subjects.journal(key), pass.last],
    })
    return { ...pass, returned, last: returned.sequence }
  }

  systemReturn(pass: BegunPass, error: { code: string; message: string }): ArchivedEvent {
    const first = pass.last === 0
    return this.put(this.subjects.return(pass.key, 'passover'), {
      headers: {
        [HEADER.code]: error.code,
        ...(first
          ? {
              [HEADER.digest]: pass.digest,
              [HEADER.request]: String(pass.sequence),
              [HEADER.requestedAt]: String(pass.time),
              [HEADER.policy]: String(this.policy.version),
            }
          : {}),
      },
      body: { v: 1, error },
      guard: [this.subjects.journal(pass.key), pass.last],
    })
  }

  event(pass: BegunPass, kind: 'cancel' | 'applied' | 'violation', sender: string, body: object): ArchivedEvent {
    return this.put(this.subjects.event(pass.key, kind, sender), { body: { v: 1, ...body } })
  }

  /** Approves and applies every modification of a returned output. */
  applyAll(pass: BegunPass, output: { artifacts: never[] }): void {
    const all = modificationsIn(output)
    const modifications = Object.fromEntries(all.map(({ digest }) => [digest, 'taken']))
    this.decide(pass, { item: 'apply', digest: sha256(pass.returned?.data ?? new Uint8Array()), modifications })
    const digests = all.map(({ digest }) => digest)
    const paths = all.map(({ modification }) => modification.path)
    this.event(pass, 'applied', pass.key.originator, { applied_by: 'paula', applied_at: this.time, applied: paths, rejected: [], digests })
  }

  private stepOf(event: ArchivedEvent) {
    const fact = this.subjects.toFact(storedOf(event))
    if (fact.type !== 'step') throw new Error('no step')
    return fact
  }

  private stepHeaders(control: WorkControl): Record<string, string> {
    const counted = countToken(control)
    return {
      [HEADER.digest]: control.digest,
      [HEADER.request]: String(control.request_sequence),
      [HEADER.requestedAt]: String(control.requested_at),
      ...(counted === undefined ? {} : { [HEADER.session]: counted }),
      ...(control.parent ? { [HEADER.parent]: keyText(control.parent) } : {}),
      ...(control.proof === undefined ? {} : { [HEADER.proof]: String(control.proof) }),
    }
  }
}
