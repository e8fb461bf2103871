import { closestMatch, type PathSegment, POLICY_FIELDS, type PolicyFault, readPolicy } from '@passover/core'
import {
  type ActivePolicy,
  activePolicy,
  faultText,
  invalidPolicyError,
  jsonFault,
  sameDocument,
  validateForPublish,
  versionOf,
} from '@passover/operator'
import { type PassOverPreferences, type PolicyVersion, pairKey, parsePairKey } from '@passover/schemas'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { usage } from '../errors.js'
import { parseDuration } from '../terminal/duration.js'
import { formatCommands } from '../terminal/text.js'
import { type Difference, describeDifference, diffPolicies } from './diff.js'
import { noteFileDiffers } from './push.js'
import { openPolicy, type PolicySession } from './session.js'

export interface SetOptions {
  pair?: string
  to?: string
  global?: true
  remove?: true
  reason?: string
  allowMissing?: true
}

/** A change to the active document. `make` runs again on a newer version if another change was published first. */
interface Change {
  make(live: ActivePolicy): PassOverPreferences
  reason: string | undefined
  allowMissing: boolean
}

type Changed =
  | { kind: 'same'; live: ActivePolicy }
  | { kind: 'changed'; value: PolicyVersion; changes: Difference[]; warnings: PolicyFault[] }

/** `passover policy set <field> [value]`: sets or removes one setting. */
export function runPolicySet(context: Context, options: SetOptions, field: string, value: string | undefined): Promise<number> {
  const at = placeOf(options, field)
  if (value === undefined && !options.remove)
    throw usage(`the value for ${field} is missing`, 'give a value, or use --remove so that the next level applies')
  const wanted = options.remove ? undefined : settingOf(field, value ?? '')
  return run(context, {
    make: ({ document }) => withSetting(document, at, wanted),
    reason: options.reason,
    allowMissing: options.allowMissing === true,
  })
}

export interface PairOptions {
  reason?: string
  allowMissing?: true
}

/**
 * `passover policy enable|disable <from> <to>`. The reason is stored in the pair, because E004 shows it. Enabling removes what disabling set, and
 * writes nothing if the pair is enabled already.
 */
export function runPolicyPair(
  context: Context,
  options: PairOptions,
  pair: { from: string; to: string; enabled: boolean },
): Promise<number> {
  const { from, to, enabled } = pair
  const at = ['pairs', pairKey(from, to)]
  const make = ({ document }: ActivePolicy) => {
    const entry = document.pairs?.[pairKey(from, to)]
    if (enabled && entry?.enabled !== false) return document
    const said = withSetting(document, [...at, 'enabled'], enabled ? undefined : false)
    return withSetting(said, [...at, 'reason'], enabled ? undefined : options.reason)
  }
  return run(context, { make, reason: options.reason, allowMissing: options.allowMissing === true })
}

/** `passover policy rollback <version>`: publishes the old document as a new version, even if some of its agents are no longer registered. */
export async function runPolicyRollback(context: Context, { reason }: { reason?: string }, version: number): Promise<number> {
  await using session = await openPolicy(context)
  const { document } = await versionOf(session, version)
  const change: Change = { make: () => document, reason: reason ?? `rollback to version ${version}`, allowMissing: true }
  return tell(context, session, await changed(session, change))
}

async function run(context: Context, change: Change): Promise<number> {
  await using session = await openPolicy(context)
  return tell(context, session, await changed(session, change))
}

/** Publishes a change. Retries on the newest version after a conflict, so that no concurrent change is lost. */
async function changed(session: PolicySession, { make, reason, allowMissing }: Change): Promise<Changed> {
  for (;;) {
    const live = await activePolicy(session)
    const read = readPolicy(make(live))
    if (!read.ok) throw invalidPolicyError('the changed policy', read.faults)
    const { document } = read
    if (sameDocument(document, live.document)) return { kind: 'same', live }
    const warnings = await validateForPublish(document, { what: 'the policy', agents: session.agents, before: live.document, allowMissing })
    const outcome = await session.store.publish({ document, base: live.version, reason })
    if (outcome.kind === 'published')
      return { kind: 'changed', value: outcome.value, changes: diffPolicies(live.document, document), warnings }
    if (outcome.kind === 'refused') throw usage(`the policy was not published: ${outcome.description}`, 'nothing was changed')
  }
}

async function tell(context: Context, session: PolicySession, done: Changed): Promise<number> {
  const { terminal } = context
  if (done.kind === 'same') {
    const { version } = done.live
    terminal.show(
      { version, unchanged: true, changes: [] },
      () =>
        `No change: ${version === 0 ? 'the defaults' : `policy version ${version}`} already contain${version === 0 ? '' : 's'} this setting.`,
    )
    return 0
  }
  const { value, changes, warnings } = done
  const told = changes.map(({ path, before, after }) => ({ path, before, after }))
  // Older warnings are left to `policy check`.
  const fresh = warnings.filter(({ places }) => places.some(({ path }) => changes.some((one) => path.startsWith(one.path))))
  const names = await readNameVerification(session.bus, context)
  terminal.show({ version: value.version, by: value.by, ...names, changes: told, warnings: fresh.map(jsonFault) }, () =>
    [
      `${terminal.colors.green('✓')} Policy version ${value.version} is in force, by ${formatPerson(value.by, names)}:`,
      ...changes.map((one) => `  ${describeDifference(one)}`),
      ...fresh.map((fault) => formatCommands(faultText(fault))),
    ].join('\n'),
  )
  await noteFileDiffers(context, session, value.document)
  return 0
}

function placeOf({ pair, to, global }: SetOptions, field: string): PathSegment[] {
  const given = [pair, to, global].filter((one) => one !== undefined)
  if (given.length !== 1) throw usage('name exactly one place for the setting', 'use one of --pair <from->to>, --to <subagent>, --global')
  const [name = ''] = field.split('.')
  if (name !== 'require_confirmation' && !Object.hasOwn(POLICY_FIELDS, name)) {
    const close = closestMatch(name, [...Object.keys(POLICY_FIELDS), 'require_confirmation'])
    throw usage(`there is no setting ${name}`, close ? `did you mean ${close}?` : 'passover policy explain <from> <to> lists the settings')
  }
  if (pair !== undefined && !parsePairKey(pair))
    throw usage(`"${pair}" is not a pair`, 'write a pair as "alice->audit", in quotes, because the shell interprets >')
  const base = pair !== undefined ? ['pairs', pair] : to !== undefined ? ['subagents', to] : ['defaults']
  return [...base, ...field.split('.')]
}

const LISTS = new Set(['tools', 'approvers', 'allow_widening'])

/** Parses a value: JSON, a duration for milliseconds, comma-separated words for a list, else plain text. */
function settingOf(field: string, text: string): unknown {
  const time = field.endsWith('_ms') ? parseDuration(text) : undefined
  if (time !== undefined) return time
  try {
    return JSON.parse(text)
  } catch {
    return LISTS.has(field)
      ? text
          .split(',')
          .map((word) => word.trim())
          .filter((word) => word !== '')
      : text
  }
}

/** Copies the document with one setting changed or removed. Objects that become empty are removed too. */
function withSetting(document: PassOverPreferences, at: PathSegment[], value: unknown): PassOverPreferences {
  return replaced(document as Record<string, unknown>, at, value) ?? {}
}

function replaced(record: Record<string, unknown>, [key, ...rest]: PathSegment[], value: unknown): Record<string, unknown> | undefined {
  const copy = { ...record }
  const name = String(key)
  const present = Object.hasOwn(copy, name) ? copy[name] : undefined
  const inner = rest.length === 0 ? value : replaced((present ?? {}) as Record<string, unknown>, rest, value)
  if (inner === undefined) delete copy[name]
  else copy[name] = inner
  // An entry with only its names left counts as empty.
  const empty = Object.keys(copy).every((one) => value === undefined && (one === 'from' || one === 'to' || one === 'subagent_id'))
  return empty ? undefined : copy
}
