import { showProposals } from '@passover/core/changes'
import type { PassResult } from '@passover/operator'
import type { DecisionArtifact, MessageArtifact, PassError, ShownFile, WorkArtifact, WorkOutput } from '@passover/schemas'
import { reviewable } from '@passover/sdk/internal'
import { duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, cut, indentContinuation, oneLine, quoteLines, visible, visibleLines } from '../terminal/text.js'
import { changeText } from './inbox.js'

/** `as`: an originator also sees messages for it alone. `within`: marks each line of the output's own text, as part of other text. */
type View = Pick<Terminal, 'colors'> & { as?: 'originator'; within?: 'show' }

/** Maximum number of characters shown of a stack trace or of an invalid output. */
const RAW_SHOWN = 2_000

/** Renders the result of a pass for people. */
export function renderResult(result: PassResult, view: View): string {
  if ('error' in result) return renderError(result, view)
  if ('unreadable' in result) return `The return cannot be read: ${oneLine(result.unreadable)}`
  return renderOutput(result.output, view)
}

/** Renders an error with its message, stack trace and raw output. */
function renderError({ error, raw_output }: { error: PassError; raw_output?: unknown }, { colors }: View): string {
  const { code, message, details } = error
  const lines = [`${colors.red(`${code}`)} ${indentContinuation(visibleLines(message))}`]
  const stack = details?.stack
  if (typeof stack === 'string') lines.push(colors.dim(indented(stack)))
  if (raw_output !== undefined) lines.push(`Raw output:\n${indented(rawText(raw_output))}`)
  return lines.join('\n')
}

function indented(text: string): string {
  return quoteLines(visibleLines(cut(text, RAW_SHOWN)))
}

/** Converts an invalid output to text. */
function rawText(raw: unknown): string {
  return typeof raw === 'string' ? raw : JSON.stringify(raw)
}

/** Renders an output: status and verdict first (with the pass id, if given), then artifacts, findings, recommendations and text. */
export function renderOutput(output: Partial<WorkOutput>, view: View, id?: string): string {
  const { colors } = view
  const { summary } = output
  const mark = output.status === 'completed' ? colors.green('✓') : output.status === 'partial' ? colors.yellow('!') : colors.red('✗')
  const took = summary?.time_elapsed_ms === undefined ? '' : ` in ${duration(summary.time_elapsed_ms)}`
  const lines = [
    `${mark} ${output.status ?? 'returned'} by ${output.subagent_id ?? '?'}${took}${summary?.decision ? `, decision: ${colors.bold(summary.decision)}` : ''}${id === undefined ? '' : colors.dim(`  pass ${id}`)}`,
  ]
  for (const reason of [output.completion_reason, summary?.decision_reason]) if (reason) lines.push(`  ${oneLine(reason)}`)
  lines.push(...renderArtifacts(output.artifacts ?? [], view))
  lines.push(...looseFindings(output))
  for (const recommendation of summary?.recommendations ?? []) lines.push(`  → ${oneLine(recommendation)}`)
  const text = output.output ?? summary?.generated_summary
  if (text) lines.push(view.within ? quoteLines(visibleLines(text).trimEnd()) : visibleLines(text).trimEnd())
  return lines.join('\n')
}

/** Returns the findings that only the summary contains. */
function looseFindings(output: Partial<WorkOutput>): string[] {
  const told = new Set((output.artifacts ?? []).flatMap((artifact) => (artifact.type === 'finding' ? [artifact.message] : [])))
  return (output.summary?.findings ?? [])
    .filter((text) => ![...told].some((message) => text.includes(message)))
    .map((text) => `  · ${oneLine(text)}`)
}

function renderArtifacts(artifacts: WorkArtifact[], view: View): string[] {
  const changes = showProposals(reviewable(artifacts) ?? [])
  let next = 0
  return artifacts.map(
    (artifact) => `  ${renderArtifact(artifact, view, artifact.type === 'file_modification' ? changes[next++] : undefined)}`,
  )
}

/** Hides the content of a message for the originator only from other readers, but not that it exists. */
function renderMessage({ content, visibility }: MessageArtifact, { colors, as }: View): string {
  if (visibility === 'originator_only' && as !== 'originator') return colors.dim('(a message that only the originator can read)')
  return oneLine(content)
}

/** Renders an artifact. `change` describes a file modification, with its number for `--only` of apply and approve. */
function renderArtifact(artifact: WorkArtifact, view: View, change: ShownFile | undefined): string {
  const { colors } = view
  switch (artifact.type) {
    case 'finding': {
      const color = artifact.severity === 'error' ? colors.red : artifact.severity === 'warning' ? colors.yellow : colors.dim
      const { location } = artifact
      const place = location
        ? `${visible(location.path)}${location.line === undefined ? '' : `:${location.line}`}${location.column === undefined ? '' : `:${location.column}`}  `
        : ''
      const fix = artifact.suggested_fix ? `\n    ${colors.dim('fix:')} ${oneLine(artifact.suggested_fix)}` : ''
      return `${color(artifact.severity)}  ${place}${oneLine(artifact.message)}  ${colors.dim(oneLine(artifact.category))}${fix}`
    }
    case 'file_modification':
      return `${colors.cyan(`change ${change?.numbers[0]}`)}  ${changeText({ ...artifact, ...change }, colors)}`
    case 'decision':
      return `${colors.cyan('decided')}  ${oneLine(artifact.question)} ${colors.bold(artifact.answer)}: ${oneLine(artifact.reasoning)}${consideredOf(artifact)}`
    case 'message':
      return renderMessage(artifact, view)
    case 'tool_result':
      return `${colors.cyan('tool')}  ${oneLine(artifact.tool_name)}: ${artifact.status}, ${count(artifact.output.length, 'character')}`
  }
}

function consideredOf({ alternatives_considered = [] }: DecisionArtifact): string {
  return alternatives_considered.length === 0 ? '' : ` (considered: ${alternatives_considered.map((one) => oneLine(one)).join('; ')})`
}

/** Returns the warnings about proposed changes for --json. Contents are not escaped. */
export function warningsIn(result: PassResult | undefined): { warnings?: object[] } {
  const changes = result && 'output' in result ? reviewable(result.output.artifacts ?? []) : undefined
  const warned = showProposals(changes ?? []).flatMap(({ numbers, path, warnings }) =>
    warnings.map((one) => ({ number: numbers[0], path, ...one })),
  )
  return warned.length > 0 ? { warnings: warned } : {}
}
