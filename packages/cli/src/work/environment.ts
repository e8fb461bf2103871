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
 * Environment variables that describe a pass to its command; the full request is on stdin. `enforced` lists the constraints that the sandbox enforces
 * whatever the command does.
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
    // Not set if all tools are allowed.
    ...(rights.tools && { PASSOVER_TOOLS: variable(rights.tools.join(',')) }),
    // Lets the command pass work over itself: `passover request` uses this as the parent.
    PASSOVER_PARENT: JSON.stringify(pass.parent),
    // The variable that OpenTelemetry tools read.
    ...(pass.traceparent !== undefined && { TRACEPARENT: pass.traceparent }),
  }
}

const VARIABLE_CHARACTERS = 30_000

/** Prepares a value: variables cannot contain NUL, and Linux refuses one of 128 KiB or more. The whole text is on stdin. */
function variable(text: string): string {
  return cut(text, VARIABLE_CHARACTERS, '').replaceAll('\0', ' ')
}
