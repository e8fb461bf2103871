import { type ExplainedField, explainPolicy, formatValue, PassOverError } from '@passover/core'
import { activePolicy, invalidPolicyError, sameDocument } from '@passover/operator'
import { type AgentRecord, agentPairOverride, issueTexts, type PassOverPreferences, requestControl } from '@passover/schemas'
import type { Context } from '../connection/context.js'
import { usage } from '../errors.js'
import { renderTable } from '../render/table.js'
import { formatCommands } from '../terminal/text.js'
import { findPolicyFile } from './find-file.js'
import { readPolicyFile } from './read-file.js'
import { openPolicy } from './session.js'

export interface ExplainOptions {
  override?: string
  request?: string
  file?: string | true
}

interface Source {
  name: string
  version?: number
  document: PassOverPreferences
  /** Returns `file:line` of a place in the document, if a file contains it. */
  lineAt(at: readonly (string | number)[]): string | undefined
}

/** `passover policy explain <from> <to>`: shows every field with its value and the level it comes from. Throws E013 for a refused override. */
export async function runPolicyExplain(context: Context, options: ExplainOptions, from: string, to: string): Promise<number> {
  const { terminal } = context
  const override = options.override === undefined ? undefined : parsed('--override', options.override, agentPairOverride)
  const request = options.request === undefined ? undefined : ownSettings(options.request)
  const { source, agent, registered, originates } = await sourceOf(context, options, { from, to })
  const explained = explainPolicy(source.document, { from, to, agent, override, request })
  if (!explained.ok) throw PassOverError.from(explained.error)
  const { fields, policy_name, overridden } = explained.value
  const rows = fields.map((row) => ({ ...row, line: row.place.at && source.lineAt(row.place.at) }))
  terminal.show(
    {
      from,
      to,
      policy: source.name,
      version: source.version,
      ...(registered === undefined ? {} : { registered }),
      ...(originates === undefined ? {} : { originates }),
      policy_name,
      policy_override: overridden,
      fields: rows.map(({ field, value, level, place, said, also, share, line }) => ({
        field,
        value,
        level,
        path: place.path,
        at: line,
        ...(share === undefined ? {} : { share }),
        ...(also.length === 0 ? {} : { also: also.map((one) => ({ level: one.level, path: one.path, value: one.value })) }),
        said: said.map((one) => ({ level: one.level, path: one.path, value: one.value })),
      })),
    },
    () => {
      const head = [`${from} -> ${to} under ${policy_name}, ${source.name}`]
      if (registered === false)
        head.push(
          formatCommands(
            `${to} is not registered: passes to it are refused (E001) until a worker registers it, or: passover agents add ${to}`,
          ),
        )
      if (originates !== undefined && originates !== 'always') head.push(formatCommands(ORIGINATES[originates](from)))
      return [...head, '', table(rows, from, terminal)].join('\n')
    },
  )
  return 0
}

/** Restrictions of the registry: they apply in addition to the policy, so a pass of an enabled pair may still be refused. */
const ORIGINATES = {
  never: (from: string) => `${from} may not originate passes (E013). To change that: passover agents set ${from} --originates always`,
  within_a_pass: (from: string) =>
    `${from} may originate passes only while it works on one (otherwise E013). To change that: passover agents set ${from} --originates always`,
}

type Row = ExplainedField & { line: string | undefined }

function valuesOf({ value, also, share }: Row, from: string): string {
  const values = [value, ...also.map((one) => one.value)].map((one) => (one === undefined ? 'none' : formatValue(one))).join(' and ')
  return share === undefined ? values : `${values}, ${from} at most ${share}`
}

function table(rows: Row[], from: string, terminal: Context['terminal']): string {
  const { dim } = terminal.colors
  const quiet = (row: Row) => (row.level === 'system' ? dim : (text: string) => text)
  return renderTable<Row>(
    [
      { head: 'FIELD', cell: (row) => row.field, color: quiet },
      { head: 'VALUE', cell: (row) => valuesOf(row, from), color: quiet },
      { head: 'LEVEL', cell: (row) => [row, ...row.also].map(({ level }) => level).join(' and '), color: quiet },
      {
        head: 'SET AT',
        cell: (row) => [[row.place.path, ...(row.line ? [row.line] : [])].join('  '), ...row.also.map(({ path }) => path)].join(' and '),
        color: quiet,
      },
      { head: 'OVERRULED', cell: (row) => overruled(row), shrinks: true, color: quiet },
    ],
    rows,
    terminal,
  )
}

/** Returns the values of other levels that are not in effect. */
function overruled({ said, place, also }: Row): string {
  const holding = new Set([place, ...also].map(({ path }) => path))
  return said
    .filter(({ path, level }) => !holding.has(path) && level !== 'system')
    .map(({ level, value }) => `${level} ${formatValue(value)}`)
    .join(', ')
}

interface Explained {
  source: Source
  agent: AgentRecord | undefined
  /** `undefined` if a file is explained, without asking a registry. */
  registered: boolean | undefined
  /** When the originator may pass work over, if it is registered. */
  originates: AgentRecord['roles']['originates'] | undefined
}

async function sourceOf(context: Context, options: ExplainOptions, { from, to }: { from: string; to: string }): Promise<Explained> {
  const named = typeof options.file === 'string' ? options.file : undefined
  const file = findPolicyFile({ ...context, path: named })
  const read = file && readPolicyFile(file, undefined)
  const lineAt = (at: readonly (string | number)[]) => {
    const line = read?.lineOf(at)
    return file && line !== undefined ? `${file.shown}:${line}` : undefined
  }
  if (options.file) {
    if (!file || !read) throw usage('--file: no policy file was found', 'name the file: --file <path>')
    if (!read.document) throw invalidPolicyError(file.shown, read.faults)
    const unasked = { agent: undefined, registered: undefined, originates: undefined }
    return { source: { name: file.shown, document: read.document, lineAt }, ...unasked }
  }
  await using session = await openPolicy(context)
  const { version, document } = await activePolicy(session)
  const same = read?.document !== undefined && sameDocument(read.document, document)
  const name = version === 0 ? 'the defaults (no policy was published)' : `policy version ${version}`
  const source: Source = { name, version, document, lineAt: same ? lineAt : () => undefined }
  const agent = session.agents?.get(to)
  return { source, agent, registered: agent !== undefined, originates: session.agents?.get(from)?.roles.originates }
}

/** Parses the fields of a request that also override the policy. */
function ownSettings(text: string) {
  const { timeout_ms, auto_apply_on_success } = requestControl.shape
  const given = parsed('--request', text, { safeParse: (value) => requestLike(value) })
  return {
    timeout_ms: parsed('--request', JSON.stringify(given.timeout_ms ?? null), timeout_ms.nullable()) ?? undefined,
    auto_apply_on_success:
      parsed('--request', JSON.stringify(given.auto_apply_on_success ?? null), auto_apply_on_success.nullable()) ?? undefined,
  }
}

type Parsed<T> = { success: true; data: T } | { success: false; error: { issues: { path: PropertyKey[]; message: string }[] } }

function requestLike(value: unknown): Parsed<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { success: true, data: value as Record<string, unknown> }
  return { success: false, error: { issues: [{ path: [], message: 'expected an object with timeout_ms or auto_apply_on_success' }] } }
}

function parsed<T>(flag: string, text: string, schema: { safeParse(value: unknown): Parsed<T> }): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw usage(
      `${flag} is not JSON: ${error instanceof Error ? error.message : String(error)}`,
      `example: ${flag} '{"timeout_ms": 60000}'`,
    )
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const why = issueTexts(result.error.issues, 5, 'the whole').join('; ')
  throw usage(`${flag}: ${why}`, 'passover policy explain <from> <to> lists the fields')
}
