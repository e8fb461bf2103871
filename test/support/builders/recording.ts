import type { ArchivedEvent } from '@passover/archive'
import type { PassOverPreferences } from '@passover/schemas'
import { RecordedStream } from './recorded-stream.js'

const CHANGE = {
  type: 'file_modification',
  path: 'a.ts',
  old_content: 'a',
  new_content: 'b',
  reason: 'better',
  confidence: 'high',
} as const

const PARTIES = { originator: 'alice', subagent: 'audit' }
const POLICY: PassOverPreferences = {
  pairs: { 'alice->guarded': { hold_before_dispatch: true }, 'alice->closed': { enabled: false, reason: 'on leave' } },
} as PassOverPreferences

/** A stream that begins with its agents and their policy. `onEvent`: told of each message instead of keeping it. */
export function openRecording(onEvent?: (event: ArchivedEvent) => void): RecordedStream {
  const stream = new RecordedStream()
  stream.onEvent = onEvent
  for (const name of ['alice', 'audit', 'guarded', 'closed', 'helper']) stream.agent(name)
  stream.publishPolicy(POLICY)
  return stream
}

/** The pass of a number: mostly a plain one, and of every other kind one in twenty. */
export function recordPass(stream: RecordedStream, n: number): void {
  const id = `pass-${String(n).padStart(12, '0')}`
  const of = (subagent: string) => ({ originator: 'alice', subagent, id })
  switch (n % 20) {
    case 3: {
      const pass = stream.begin(stream.ask({ key: of('guarded') }))
      stream.decide(pass, { item: 'dispatch', digest: pass.digest })
      stream.return(stream.dispatch(pass))
      return
    }
    case 7:
      stream.begin(stream.ask({ key: of('closed') }))
      return
    case 11: {
      const parent = stream.begin(stream.ask({ key: of('audit') }))
      const key = { originator: 'audit', subagent: 'helper', id: `${id}-child` }
      const proof = { ...parent.key, return_id: parent.control?.return_id ?? '', proof: parent.last }
      stream.return(stream.begin(stream.ask({ key, parent: proof }), parent))
      stream.return(parent)
      return
    }
    case 13: {
      const pass = stream.begin(stream.ask({ key: of('audit'), timeout_ms: 20_000 }))
      stream.event(pass, 'cancel', 'alice', { reason: 'not needed' })
      stream.systemReturn(pass, { code: 'E043', message: 'the pass was cancelled' })
      return
    }
    case 17: {
      const pass = stream.return(stream.begin(stream.ask({ key: of('audit') })), { artifacts: [CHANGE] })
      stream.applyAll(pass, { artifacts: [CHANGE] as never[] })
      return
    }
    case 19:
      stream.return(stream.fence(stream.begin(stream.ask({ key: of('audit') })), 2), 'second try', 2)
      return
    default:
      stream.return(stream.begin(stream.ask({ key: { ...PARTIES, id } })), `looked at ${n}`)
  }
}
