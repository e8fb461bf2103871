import { type ActivePolicy, activePolicy, invalidPolicyError, versionOf } from '@passover/operator'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { renderTable } from '../render/table.js'
import { ago } from '../terminal/duration.js'
import { formatCommands } from '../terminal/text.js'
import { describeDifference, diffPolicies, summarizeDifferences } from './diff.js'
import { requiredFile } from './push.js'
import { readPolicyFile } from './read-file.js'
import { openPolicy, type PolicySession } from './session.js'

/** `passover policy diff [from] [to]`: compares the active policy with the file, an earlier version with the active one, or two versions. */
export async function runPolicyDiff(context: Context, options: { file?: string }, given: (number | undefined)[]): Promise<number> {
  const { terminal } = context
  await using session = await openPolicy(context)
  const { before, after } = await sides(context, session, { given, file: options.file })
  const changes = diffPolicies(before.document, after.document)
  terminal.show(
    { from: before.name, to: after.name, changes: changes.map(({ path, before: was, after: is }) => ({ path, before: was, after: is })) },
    () =>
      changes.length === 0
        ? `No difference between ${before.name} and ${after.name}.`
        : [`From ${before.name} to ${after.name}:`, ...changes.map((one) => `  ${colored(describeDifference(one), terminal.colors)}`)].join(
            '\n',
          ),
  )
  return 0
}

interface Side {
  name: string
  document: ActivePolicy['document']
}

async function sides(
  context: Context,
  session: PolicySession,
  { given, file }: { given: (number | undefined)[]; file: string | undefined },
) {
  const [from, to] = given
  const live = await activePolicy(session)
  const named = ({ version, document }: ActivePolicy): Side => ({ name: `version ${version}`, document })
  if (from !== undefined) {
    const after = to === undefined ? live : await versionOf(session, to)
    return { before: named(await versionOf(session, from)), after: named(after) }
  }
  const found = requiredFile(context, file)
  const read = readPolicyFile(found, undefined)
  if (!read.document) throw invalidPolicyError(found.shown, read.faults)
  return { before: named(live), after: { name: found.shown, document: read.document } }
}

function colored(line: string, colors: Context['terminal']['colors']): string {
  if (line.startsWith('+')) return colors.green(line)
  return line.startsWith('-') ? colors.red(line) : colors.yellow(line)
}

/** `passover policy history`: lists the versions, newest first, with the changes of each. */
export async function runPolicyHistory(context: Context, { limit }: { limit: number }): Promise<number> {
  const { terminal } = context
  await using session = await openPolicy(context)
  const live = await activePolicy(session)
  const [versions, names] = await Promise.all([session.store.versions(), readNameVerification(session.bus, context)])
  const documents = new Map(versions.map(({ version, document }) => [version, document]))
  const rows = versions.slice(0, limit).map(({ version, time, by, reason, document, digest }) => {
    const before = version === 1 ? {} : documents.get(version - 1)
    const changes = before && diffPolicies(before, document)
    return {
      version,
      time,
      by,
      ...names,
      reason,
      digest,
      in_force: version === live.version,
      changed: changes ? summarizeDifferences(changes) : 'unknown',
    }
  })
  const now = session.bus.now()
  terminal.show(rows, () =>
    rows.length === 0
      ? formatCommands('No policy was published; the defaults apply. To publish one: passover policy push')
      : renderTable<(typeof rows)[number]>(
          [
            { head: 'VERSION', cell: (row) => `${row.version}${row.in_force ? ' *' : ''}` },
            { head: 'WHEN', cell: (row) => ago(row.time, now) },
            { head: 'WHO', cell: (row) => formatPerson(row.by, row) },
            { head: 'REASON', cell: (row) => row.reason ?? '', shrinks: true },
            { head: 'CHANGED', cell: (row) => row.changed, shrinks: true },
          ],
          rows,
          terminal,
        ),
  )
  return 0
}
