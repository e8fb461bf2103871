import { IndexesLost, type Repair, rebuildRecords } from '@passover/audit'
import type { Bus } from '@passover/bus'
import { askIndex, askRepair } from '@passover/operator'
import { outputSchemas } from '@passover/validation'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { readIdWindow } from '../connection/id-window.js'
import { readNameVerification } from '../connection/verified-names.js'
import { CliFailure, isPermissionError } from '../errors.js'
import { dateTime } from '../terminal/duration.js'
import { count } from '../terminal/text.js'

export interface RebuildFlags {
  source: 'archive' | 'stream'
  idWindow?: number
}

const PROGRESS_DELAY_MS = 1_000

/** Rebuilds the records of passes from stream and archive. */
export async function runRebuild(context: Context, { source, idWindow }: RebuildFlags): Promise<number> {
  const { terminal, env } = context
  await using bus = await connectPerson(context)
  await bus.ensureBuckets()
  // Throws if the id window is unknown: records would be computed with another one than the audit service uses.
  const window = idWindow === undefined ? await readIdWindow(bus) : { id_window_ms: idWindow }
  // Marks unverified names in records, as the audit service does when it writes them.
  const rules = { ...window, ...((await readNameVerification(bus, context)).unverified && { names: 'unverified' as const }) }
  await using schemas = outputSchemas()
  const writer = await auditRepair(bus)
  const progress = terminal.progress()
  const begun = Date.now()
  try {
    const rebuilt = await rebuildRecords(bus, {
      source,
      rules,
      repair: writer.repair,
      log_all_passes: env.PASSOVER_LOG_ALL_PASSES !== 'false',
      check: (schema, value, subagent) => schemas.checkFor(subagent, schema, value),
      onProgress: ({ passes, back_to, rewritten }) => {
        if (Date.now() - begun < PROGRESS_DELAY_MS) return
        const where = back_to === undefined ? `, ${rewritten} written` : `, back to ${dateTime(back_to)}`
        progress.say(`${count(passes, 'pass', 'passes')} compared${where}`)
      },
    })
    const { passes, unchanged, rewritten, removed, kept, unlogged, indexes } = rebuilt
    // Filters and statistics use the in-memory index of a running audit service, so that is compared as well.
    const compared = await askIndex(bus, { mend: true })
    const index = compared?.complete ? { records: compared.records, mended: compared.mended } : undefined
    terminal.show({ source, ...rebuilt, ...(index ? { index } : {}), ms: Date.now() - begun }, () =>
      [
        ...(indexes.length > 0 ? [`Indexes rebuilt from their segments: ${indexes.join(', ')}`] : []),
        `${count(passes, 'pass', 'passes')}: ${unchanged} correct, ${rewritten} rewritten`,
        ...(removed > 0 ? [`${count(removed, 'record')} without a pass deleted`] : []),
        ...(kept > 0 ? [`${count(kept, 'record')} older than the readable messages, not changed`] : []),
        ...(index
          ? [
              `Index for filters and statistics: ${count(index.records, 'record')} compared, ${count(index.mended, 'entry', 'entries')} fixed`,
            ]
          : ['The index for filters and statistics was not compared: no audit service that is up to date answered']),
        ...(unlogged > 0 ? [`${count(unlogged, 'pass', 'passes')} without a record, because log_all_passes was false`] : []),
      ].join('\n'),
    )
  } catch (error) {
    if (isPermissionError(error)) throw notPermitted(context.person, writer.why)
    if (!(error instanceof IndexesLost)) throw error
    throw new CliFailure('E041', error.message, { hint: 'passover verify shows the damage', exit: 1 })
  } finally {
    progress.stop()
  }
  return 0
}

/**
 * Returns the audit service as the writer, which has the rights that people do not need: it reads what it writes itself. Returns the reason if no
 * audit service answers, or not this person: then this process writes, if the server lets it.
 */
async function auditRepair(bus: Bus): Promise<{ repair?: Repair; why?: CliFailure }> {
  try {
    await askRepair(bus)
  } catch (error) {
    if (error instanceof CliFailure) return { why: error }
    throw error
  }
  const repair: Repair = {
    passes: (passes) => askRepair(bus, { passes: [...passes] }),
    records: (keys) => askRepair(bus, { records: [...keys] }),
    index: async (k) => (await askRepair(bus, { index: k })).lost,
  }
  return { repair }
}

/** Describes a read or write that the server refused, by what the audit service said before. */
function notPermitted(person: string, why: CliFailure | undefined): CliFailure {
  if (why && why.code !== 'E013') return why
  return new CliFailure('E013', `${person} may not have the records of passes rebuilt`, {
    hint: 'an auditor or a custodian may, if the audit service knows them as a person: passover auth add auditor <name>',
  })
}
