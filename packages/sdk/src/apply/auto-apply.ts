import { runsByItself } from '@passover/core'
import { oneLine, visible } from '@passover/core/text'
import type { AnsweredPass, PassKey, WorkOutput } from '@passover/schemas'
import { askAudit, type StoredReturn } from '../journal/poll.js'
import { sleep } from '../runtime/dependencies.js'
import { say as sayOnStderr } from '../runtime/stderr.js'
import { authorizationInput, noteApplied } from './apply.js'
import { applySelected } from './apply-selected.js'
import { authorizeAutoApply } from './authorize.js'
import type { ApplyContext } from './journal/recover.js'

/** Milliseconds for which a return is awaited from the audit service, which follows the stream with a short delay. */
const READ_TIMEOUT_MS = 2_000
const RETRY_DELAY_MS = 50

/** Returns true if the output may be eligible: without the subagent's consent nothing is applied automatically. */
export function offersAutoApply({ auto_apply_allowed, artifacts }: WorkOutput): boolean {
  return auto_apply_allowed && artifacts.some(({ type }) => type === 'file_modification')
}

/**
 * Applies an output during its delivery if request, policy, output and rights allow it, it has no critical findings and no approval is required. A
 * stored decision takes precedence. An output that was applied or undone before is left alone. An output that changes an automatically executed file
 * is left to a person completely. Applied files and reasons for not applying are always reported. Never throws: the output is delivered in any case.
 */
export async function autoApply(context: ApplyContext, key: PassKey, output: WorkOutput): Promise<void> {
  const { deps } = context
  const report = deps.say ?? sayOnStderr
  const say = (what: string) => report(`${key.id} of ${key.subagent} was not applied automatically: ${what}`)
  try {
    const answer = await readThrough(context, key)
    if (!answer) return say('no audit service answers, so its policy cannot be read')
    const input = authorizationInput(answer.pass, answer.storedReturn, output)
    const taken = answer.pass.record?.application ? [] : authorizeAutoApply(input, output)
    if (taken.length === 0) return
    const running = taken.flatMap(({ modification: { path } }) => runsByItself(path)?.replace(/^/, `${visible(path)}: `) ?? [])
    if (running.length > 0) return say(`${running.join('; ')}. To review it: passover apply ${key.id}`)
    const applied_by = input.decision?.person ?? deps.bus.identity
    const done = await applySelected(context, { key, all: input.all, taken, applied_by, binary: false })
    noteApplied(output, done)
    if (done.applied.length > 0)
      report(
        `${key.id} of ${key.subagent} was applied automatically in ${context.directory}: ${done.applied.map((path) => visible(path)).join(', ')}`,
      )
    for (const { path, why } of done.conflicts) say(`${visible(path)}: ${why}`)
  } catch (error) {
    say(oneLine(error instanceof Error ? error.message : String(error)))
  }
}

/** Returns the pass once the audit service has read its return. */
async function readThrough(
  { deps }: ApplyContext,
  key: PassKey,
): Promise<{ pass: AnsweredPass; storedReturn: StoredReturn | undefined } | undefined> {
  const until = deps.clock.monotonic() + READ_TIMEOUT_MS
  for (;;) {
    const answer = await askAudit(deps.bus, key)
    if (answer.kind === 'pass' && (answer.storedReturn || answer.pass.return_left_out)) return answer
    if (answer.kind === 'unanswered' || deps.clock.monotonic() > until) return undefined
    await sleep(deps.clock, RETRY_DELAY_MS)
  }
}
