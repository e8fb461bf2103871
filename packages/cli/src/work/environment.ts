import type { Pass } from '@passover/sdk'
import { cut } from '../terminal/text.js'

type EnvironmentPass = Pick<
  Pass,
  | 'id'
  | 'subagent'
  | 'originator'
  | 'reason'
  | 'objective'
  | 'priority'
  | 'session_id'
  | 'attempt'
  | 'deadline'
  | 'chain_depth'
  | 'ancestors'
  | 'rights'
  | 'parent'
> & { traceparent?: string | undefined }

/**
 * What a command is told about its pass in its environment, besides the request on its stdin. `enforced`: the constraints that hold whatever
 * it does.
 */
export function passEnvironment(pass: EnvironmentPass, enforced: readonly string[] = []): Record<string, string> {
  const { rights } = pass
  return {
    PASSOVER_PASS_ID: pass.id,
    PASSOVER_AGENT: pass.subagent,
    PASSOVER_ORIGINATOR: pass.originator,
    PASSOVER_REASON: variable(pass.reason),
    PASSOVER_OBJECTIVE: variable(pass.objective),
    PASSOVER_PRIORITY: pass.priority,
    PASSOVER_SESSION: variable(pass.session_id),
    PASSOVER_ATTEMPT: String(pass.attempt),
    PASSOVER_DEADLINE: new Date(pass.deadline).toISOString(),
    PASSOVER_CHAIN_DEPTH: String(pass.chain_depth),
    PASSOVER_CHAIN: [...pass.ancestors, pass.subagent].join(','),
    PASSOVER_CONSTRAINTS: variable(rights.constraints.join(',')),
    PASSOVER_ENFORCED: enforced.join(','),
    PASSOVER_CAN_MODIFY_FILES: String(rights.can_modify_files),
    PASSOVER_CAN_RUN_TOOLS: String(rights.can_run_tools),
    // Absent: all.
    ...(rights.tools && { PASSOVER_TOOLS: variable(rights.tools.join(',')) }),
    // Lets the command pass over in its turn: `passover request` names its parent by it.
    PASSOVER_PARENT: JSON.stringify(pass.parent),
    // As OpenTelemetry's own tools read it.
    ...(pass.traceparent !== undefined && { TRACEPARENT: pass.traceparent }),
  }
}

const VARIABLE_CHARACTERS = 30_000

/** A variable can hold no NUL, and Linux refuses to start a program with one of 128 KiB; the whole text is on stdin. */
function variable(text: string): string {
  return cut(text, VARIABLE_CHARACTERS, '').replaceAll('\0', ' ')
}
