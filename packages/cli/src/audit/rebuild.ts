import { rebuildRecords } from '@passover/audit'
import { outputSchemas } from '@passover/validation'
import { connectPerson } from '../client.js'
import type { Context } from '../context.js'
import { dateTime } from '../duration.js'
import { rulesOf } from '../id-window.js'
import { count } from '../text.js'
import type { RebuildFlags } from './rebuild-command.js'

const SAY_AFTER_MS = 1_000

/** Makes the projection what stream and archive say. */
export async function runRebuild(context: Context, { source, idWindow }: RebuildFlags): Promise<number> {
  const { terminal, env } = context
  await using bus = await connectPerson(context)
  await bus.ensureBuckets()
  // Throws where the stream does not answer: then its window is not known, and every record would be judged by the default one.
  await bus.bounds()
  await using schemas = outputSchemas()
  const progress = terminal.progress()
  const begun = Date.now()
  try {
    const rebuilt = await rebuildRecords(bus, {
      source,
      rules: idWindow === undefined ? rulesOf(bus) : { id_window_ms: idWindow },
      log_all_passes: env.PASSOVER_LOG_ALL_PASSES !== 'false',
      check: (schema, value) => schemas.check(schema, value),
      onProgress: ({ passes, back_to, rewritten }) => {
        if (Date.now() - begun < SAY_AFTER_MS) return
        const where = back_to === undefined ? `, ${rewritten} written` : `, back to ${dateTime(back_to)}`
        progress.say(`${count(passes, 'pass', 'passes')} compared${where}`)
      },
    })
    const { passes, unchanged, rewritten, removed, kept, unlogged } = rebuilt
    terminal.show({ source, ...rebuilt, ms: Date.now() - begun }, () =>
      [
        `${count(passes, 'pass', 'passes')}: ${unchanged} as they should be, ${rewritten} written anew`,
        ...(removed > 0 ? [`${count(removed, 'record')} of no pass deleted`] : []),
        ...(kept > 0 ? [`${count(kept, 'record')} older than what can be read, left as they are`] : []),
        ...(unlogged > 0 ? [`${count(unlogged, 'pass', 'passes')} without a record, as log_all_passes: false said`] : []),
      ].join('\n'),
    )
  } finally {
    progress.stop()
  }
  return 0
}
