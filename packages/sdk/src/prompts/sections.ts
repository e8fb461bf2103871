import { cut, ERRORS } from '@passover/core'
import type { AgentRecord, EffectivePolicy, ErrorCode } from '@passover/schemas'
import { sizeText } from '../runtime/format.js'
import type { Partner } from './context.js'

/** Sentences of a prompt, generated from facts. Only names of agents and tools are in backticks, and texts by others are stripped of them. */

const DESCRIPTION_CHARACTERS = 300
const SECOND_MS = 1_000

/** Formats one line per subagent: `- `audit`: "checks types". Skills: types. At most 30 s …`. */
export function subagentLines(subagents: readonly Partner[]): string {
  return subagents.map(({ agent, policy }) => `- ${named(agent)}\n  ${sentences(pairLimits(policy))}`).join('\n')
}

export function originatorLines(originators: readonly Partner[]): string {
  return originators.map(({ agent, policy }) => `- \`${agent.name}\`: ${sentences(workerLimits(policy))}`).join('\n')
}

/**
 * Formats a name with its description. A description is written by another agent and may contain anything: it is reduced to one line, cut, and
 * stripped of markup.
 */
function named({ name, description, skills }: AgentRecord): string {
  const about = description ? `, which describes itself as "${quoted(description)}"` : ''
  const skilled = skills && skills.length > 0 ? ` (skills: ${skills.map(quoted).join(', ')})` : ''
  return `\`${name}\`${about}${skilled}`
}

function quoted(text: string): string {
  const line = text.replace(/[\p{C}\p{Z}]+/gu, ' ').replace(/[`"<>]/g, "'")
  return cut(line.trim(), DESCRIPTION_CHARACTERS)
}

/** Returns the limits that an originator must expect. */
function pairLimits(policy: EffectivePolicy): string[] {
  return [
    `It has ${time(policy.timeout_ms)}`,
    `the chain may be ${policy.max_chain_depth} ${policy.max_chain_depth === 1 ? 'pass' : 'passes'} long`,
    given(policy),
    ...(policy.hold_before_dispatch ? [`a person approves each pass before it starts, within ${time(policy.approval_expires_ms)}`] : []),
    policy.auto_return
      ? 'every result is delivered immediately'
      : 'a result with blockers, or with status partial, waits until a person releases it',
    changes(policy),
    ...toolsOf(policy, 'it'),
    ...rates(policy),
    ...(policy.allow_widening.length > 0
      ? [`an override may allow more for ${policy.allow_widening.join(', ')}`]
      : ['an override may only make the policy stricter']),
  ]
}

/** Returns the limits that a subagent must respect in passes from this originator. */
function workerLimits(policy: EffectivePolicy): string[] {
  return [
    `you have ${time(Math.min(policy.timeout_ms, policy.max_compute_time_ms))}`,
    given(policy),
    policy.can_modify_files ? 'you may change files' : 'you may not change files: propose changes',
    ...toolsOf(policy, 'you'),
    ...(policy.output_schema && policy.validate_output ? ['your output is checked against your output schema'] : []),
  ]
}

function given({ pass_context, pass_files, max_context_size_bytes }: EffectivePolicy): string {
  const passed = [...(pass_context ? ['the messages'] : []), ...(pass_files ? ["the files' contents"] : [])]
  const what = passed.length === 0 ? 'neither messages nor contents of files are' : `${passed.join(' and ')} are`
  return `${what} passed, at most ${sizeText(max_context_size_bytes)} in total`
}

function changes({ can_modify_files, require_user_approval, auto_apply }: EffectivePolicy): string {
  if (require_user_approval && !can_modify_files) return 'changes are proposals, and a person must approve them'
  if (require_user_approval) return 'a person must approve its changes before they are applied'
  return auto_apply && can_modify_files ? 'its changes may be applied automatically' : 'its changes are applied when you call apply'
}

function toolsOf({ can_run_tools, tools }: EffectivePolicy, who: string): string[] {
  if (!can_run_tools || tools?.length === 0) return [`${who} may run no tools`]
  return tools ? [`${who} may run ${tools.map((tool) => `\`${quoted(tool)}\``).join(', ')} and no other tool`] : []
}

function rates(policy: EffectivePolicy): string[] {
  const { max_passes_per_minute, max_active, budget } = policy
  return [
    ...(max_passes_per_minute === undefined ? [] : [`at most ${max_passes_per_minute} passes per minute`]),
    ...(max_active === undefined ? [] : [`at most ${max_active} open passes`]),
    ...(budget?.passes === undefined ? [] : [`at most ${budget.passes} descendants`]),
    ...(budget?.tokens === undefined ? [] : [`at most ${budget.tokens} tokens`]),
    ...(budget?.time_ms === undefined ? [] : [`at most ${time(budget.time_ms)} in total`]),
  ]
}

/** Formats the meaning of each code and the recommended action, from the error table. */
export function errorTable(codes: readonly ErrorCode[]): string {
  const rows = codes.map((code) => {
    const { name, sentence, action, recoverable } = ERRORS[code]
    return `| ${code} ${name} | ${sentence} | ${recoverable ? 'yes' : 'no'} | ${action} |`
  })
  return ['| code | what happened | retry? | what to do |', '| --- | --- | --- | --- |', ...rows].join('\n')
}

function sentences(parts: string[]): string {
  const text = parts.join('; ')
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`
}

function time(ms: number): string {
  if (ms < SECOND_MS) return `${ms} ms`
  const seconds = ms / SECOND_MS
  if (seconds < 120) return `${round(seconds)} s`
  return seconds < 7_200 ? `${round(seconds / 60)} min` : `${round(seconds / 3_600)} h`
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10)
}
