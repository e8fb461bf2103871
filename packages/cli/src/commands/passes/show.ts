import type { AnsweredPass } from '@passover/schemas'
import { Command } from 'commander'
import { action } from '../../connection/context.js'

interface ShowOptions {
  from?: string
  to?: string
  fullRequest?: true
}

/** `passover show <id>` */
export function showCommand(): Command {
  return new Command('show')
    .description('show one pass: chain, timeline, result, decisions')
    .argument('<id>', 'pass id, or its first characters')
    .option('--from <agent>', 'originator, if several passes have this id')
    .option('--to <agent>', 'subagent, if several passes have this id')
    .option('--full-request', 'print the whole request instead: all fields, messages, tool results and the contents of files')
    .addHelpText('after', '\nExample:\n  passover show 0abcdef1 --json\n  passover show 0abcdef1 --full-request')
    .action(
      action<ShowOptions, [string]>(async (context, { fullRequest, ...options }, id) => {
        const { connectPerson } = await import('../../connection/connect-person.js')
        const { findPass, markedPass, noWorkersText, waitsForWorker, workersFor, readResult } = await import('@passover/operator')
        const { renderPass } = await import('../../render/timeline.js')
        const { itemDocument } = await import('../../render/inbox.js')
        const { warningsIn } = await import('../../render/result.js')
        const { revokedAgents } = await import('../../auth/find-keys.js')
        await using bus = await connectPerson(context)
        const found = await findPass(bus, { id, ...options }, { history: true, due: true })
        if (fullRequest) {
          const { readRequestContent, requestDocument } = await import('../../stored-messages/request-content.js')
          const { renderRequest } = await import('../../render/request.js')
          const content = await readRequestContent(bus, found)
          context.terminal.show(requestDocument(found, content), () => renderRequest(content, context.terminal))
          return 0
        }
        const pass = markedPass(found, revokedAgents(context.server()))
        const result = await readResult(bus, pass)
        const workers = waitsForWorker(pass.row) ? await workersFor(bus, pass.row.subagent) : undefined
        const {
          row,
          key,
          return: _return,
          history,
          below,
          digest: request_digest,
          due,
          ...rest
        } = { ...pass, decisions: allDecisions(pass) }
        context.terminal.show(
          {
            ...row,
            key,
            ...rest,
            ...(request_digest === undefined ? {} : { request_digest }),
            ...(due ? { due: itemDocument(due) } : {}),
            timeline: history ?? [],
            below: below ?? [],
            ...(workers === undefined ? {} : { workers }),
            ...result,
            ...warningsIn(result),
          },
          () => renderPass(pass, result, { ...context.terminal, now: bus.now(), person: context.person }),
        )
        if (workers === 0 && context.terminal.mode === 'human') context.terminal.note(noWorkersText(pass.row.subagent))
        return 0
      }),
    )
}

/** Returns all recorded decisions, including those that do not count. Those that count also have the changes that they selected. */
function allDecisions({ record, decisions }: AnsweredPass): object[] {
  const recorded = Array.isArray(record?.decisions) ? (record.decisions as { sequence?: unknown }[]) : []
  if (recorded.length === 0) return decisions
  return recorded.map((one) => ({ ...one, ...decisions.find(({ sequence }) => sequence === one.sequence) }))
}
