import type { Command } from 'commander'
import type { ExportFlags } from '../../audit/export.js'
import { action } from '../../connection/context.js'
import { timeOption } from '../../input/options.js'

/** `passover audit export` */
export function registerExport(group: Command): void {
  group
    .command('export')
    .description('write the audit log as files: <YYYY-MM>/session-<id>-passes.jsonl and audit-summary.json')
    .option('--out <folder>', "output folder (default: the policy's audit.log_directory, else .opencode/pass-over-logs)")
    .option('--csv', 'also write <YYYY-MM>/passes.csv for each month')
    .option(
      '--since <time>',
      'requested since this time: 2h, 30m, 7d ago, or 2026-11-28[T14:30[:05]]; older lines stay',
      timeOption('--since'),
    )
    .option('--session <id>', 'only passes of this session')
    .addHelpText(
      'after',
      '\nReads the archive and the stream, not the records. On an isolated installation, you need the rights of an auditor.\nEach file is replaced atomically. If you run the command again, it writes the same files. It writes the summary only if no filter is set.\n\nExamples:\n  passover audit export\n  passover audit export --csv --since 30d --out /srv/logs',
    )
    .action(
      action<ExportFlags, []>(async (context, flags) => {
        const { runExport } = await import('../../audit/export.js')
        return runExport(context, flags)
      }),
    )
}
