import { type JournalRules, passError } from '@passover/core'
import type { CustodyAnswer, Question } from '@passover/schemas'
import { findSessionPasses, type SessionDeps, segmentsOf } from '../erasure/session-passes.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'

export interface CustodyAnswerDeps {
  custody: CustodyWatcher
  sessions: SessionDeps
  seesAll: (name: string) => boolean
  rules: JournalRules
}

/** Lists legal holds and erasures; for a session, also previews what its erasure would do. Answers E013 unless the asker may see every pass. */
export async function answerCustody(
  deps: CustodyAnswerDeps,
  asker: string,
  asked: Extract<Question, { op: 'custody' }>,
): Promise<CustodyAnswer> {
  if (!deps.seesAll(asker)) return { ok: false, error: passError('E013', 'Only people may list holds and erasures') }
  const current = await deps.custody.current()
  const marked = <T extends object>(all: readonly T[]) =>
    all.map((one) => ({ ...one, ...(deps.rules.names && { unverified: true as const }) }))
  const [holds, erasures] = [marked(current.holds), marked(current.erasures)]
  const { session, originator } = asked
  if (session === undefined) return { ok: true, holds, erasures }
  const { passes, originators } = await findSessionPasses(deps.sessions, { session, originator })
  const frames = passes.flatMap((pass) => pass.frames)
  const open = passes.flatMap(({ key, open }) => (open === undefined ? [] : [`${key.id} (${open})`]))
  const held = [...new Set(passes.flatMap((pass) => pass.held))]
  const parts = new Set(passes.flatMap((pass) => pass.parts)).size
  const { segments } = await deps.sessions.archive.finder.segments()
  const sealed = new Set(segments.map(({ k }) => k))
  const rewritten = segmentsOf(frames).filter((k) => sealed.has(k)).length
  const preview = { originators, passes: passes.length, open, held, segments: rewritten, entries: frames.length, parts }
  return { ok: true, holds, erasures, preview }
}
