import { PartError } from '@passover/bus'
import {
  acceptReturn,
  type CheckSchema,
  completeOutput,
  cut,
  cutStart,
  issueTexts,
  isWorkersError,
  PassOverError,
  passError,
  schemaFor,
  type Terms,
  termsOf,
} from '@passover/core'
import { type HandlerResult, handlerResult, LIMITS, type PassError, type WorkOutput } from '@passover/schemas'
import { type Answer, type GivenBack, type Giver, giveBack } from './give-back.js'
import { overlarge } from './overlarge.js'
import type { Run } from './run.js'
import { flushProgress, hasUntold } from './tell.js'
import { WorkError } from './work-error.js'

const STACK_END = 2_000
const FAULTS_SHOWN = 3
const AS_FILES = 'return a shorter text, or what it says as file modifications'

/** Gives back the one answer of a run; a second call gets the first one's outcome. */
export function answerRun(giver: Giver, run: Run, answer: Answer): Promise<GivenBack> {
  if (run.answer) return run.answer
  run.answered = answer
  run.answer = hasUntold(run) ? flushProgress(giver, run).then(() => giveBack(giver, run, answer)) : giveBack(giver, run, answer)
  return run.answer
}

/** The whole output, if it is acceptable; else E021 or E013, which keeps what was given. At once where the pass sets no output_schema. */
export function outputAnswer(giver: Giver, run: Run, given: HandlerResult): Answer | Promise<Answer> {
  const faulty = faultOf(given)
  if (faulty) return { error: passError('E021', faulty), raw_output: given }
  const text = typeof given === 'string' ? given : given.output
  if (typeof text === 'string' && text.length > LIMITS.text) {
    const error = overlarge(`the output's text has ${text.length} characters; at most ${LIMITS.text} may be returned`, AS_FILES)
    return { error, raw_output: given }
  }
  const { control } = run
  const output = completeOutput(given, {
    control,
    attempt: run.attempt,
    started_at: run.began_at,
    completed_at: giver.deps.clock.now(),
    files_passed: run.parts.reduce((files, part) => (part.name.startsWith('file:') ? files + 1 : files), 0),
    aborted: run.abort.aborted,
  })
  const { schemas } = giver.deps
  if (schemas && schemaFor(output, control)) {
    const check: CheckSchema = async (schema, value) => ({ faults: await schemas.check(schema, value) })
    return termsOf(output, control, check).then((terms) => accepted(run, { given, output }, terms))
  }
  // All but the text is the system's own.
  if (typeof given === 'string') return { output }
  return accepted(run, { given, output }, control)
}

function accepted(run: Run, { given, output }: { given: HandlerResult; output: WorkOutput }, { rights, schema_faults }: Terms): Answer {
  const judged = acceptReturn(output, run.key, { rights, schema_faults })
  return judged.ok ? { output } : { error: judged.error, raw_output: given }
}

/** Text and objects that say something are checked as part of the whole output; anything else here. */
function faultOf(given: unknown): string | undefined {
  if (typeof given === 'string') return undefined
  if (typeof given === 'object' && given !== null && !Array.isArray(given) && KNOWN.some((field) => field in given)) return undefined
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return `a handler returns text or an object, got ${kindOf(given)}`
  const parsed = handlerResult.safeParse(given)
  if (parsed.success) return undefined
  return `the handler's result is no output: ${issueTexts(parsed.error.issues, FAULTS_SHOWN, 'it').join('; ')}`
}

function kindOf(given: unknown): string {
  if (given === null) return 'null'
  if (Array.isArray(given)) return 'an array'
  return given === undefined ? 'nothing' : `a ${typeof given}`
}

const KNOWN = ['status', 'completion_reason', 'artifacts', 'summary', 'auto_apply_allowed', 'output'] satisfies (keyof WorkOutput)[]

/** The error of a handler that threw (DESIGN §2): E011 with the end of its stack, unless it says of its own run what is wrong with it. */
export function failureOf(error: unknown, run: Run): PassError {
  if (error instanceof WorkError && isWorkersError(error.toWire())) return error.toWire()
  if (error instanceof PassOverError && error.code === 'E021') return error.toWire()
  if (error instanceof PartError)
    return passError('E011', `the context is not complete: ${error.message}`, { attempts: run.attempt, part: error.reason })
  const cause = error instanceof Error ? error : new Error(String(error))
  const details: Record<string, unknown> = { attempts: run.attempt, name: cause.name }
  if (cause.stack) details.stack = cutStart(cause.stack, STACK_END)
  if (error instanceof PassOverError) details.cause = { ...error.toWire(), details: undefined }
  return passError('E011', cut(cause.message, 8_192) || cause.name, details)
}
