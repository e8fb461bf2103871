import type { PassFilter, QueryStatus } from '@passover/schemas'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { nameOption, QUERY_STATUSES, timeOption } from '../input/options.js'

/** Flags that select passes. */
export interface FilterFlags {
  from?: string
  to?: string
  session?: string
  status?: QueryStatus
  since?: number
  until?: number
  code?: NonNullable<PassFilter['code']>
  decidedBy?: string
  approved?: true
  denied?: true
  item?: 'dispatch' | 'return' | 'apply'
}

/** Adds the options of {@link FilterFlags} to a command. */
export function addFilterOptions(command: Command): Command {
  return command
    .option('--from <agent>', 'only passes from this originator', nameOption)
    .option('--to <agent>', 'only passes to this subagent', nameOption)
    .option('--session <id>', 'only passes of this session')
    .addOption(new Option('--status <status>', 'only passes with this status or outcome').choices(QUERY_STATUSES))
    .option('--since <time>', 'requested since this time: 2h, 30m, 7d ago, or 2026-11-28[T14:30[:05]]', timeOption('--since'))
    .option('--until <time>', 'requested before this time', timeOption('--until'))
    .option('--code <code>', 'ended with this error code: E010, E013, …', errorCodeOption)
    .option('--decided-by <person>', 'with a decision by this person', nameOption)
    .option('--approved', 'with at least one approval')
    .option('--denied', 'with at least one denial')
    .addOption(new Option('--item <item>', 'with a decision on this item').choices(['dispatch', 'return', 'apply']))
}

/** Converts the flags to the filter that the audit service takes. */
export function filterFromFlags(flags: FilterFlags): PassFilter {
  const { from, to, session, status, since, until, code, decidedBy, approved, denied, item } = flags
  const verdict = approved ? ('approve' as const) : denied ? ('deny' as const) : undefined
  const decided = decidedBy !== undefined || verdict !== undefined || item !== undefined
  return {
    ...(from === undefined ? {} : { originator: from }),
    ...(to === undefined ? {} : { subagent: to }),
    ...(session === undefined ? {} : { session_id: session }),
    ...(status === undefined ? {} : { status }),
    ...(since === undefined ? {} : { from: since }),
    ...(until === undefined ? {} : { to: until }),
    ...(code === undefined ? {} : { code }),
    ...(decided
      ? {
          decision: {
            ...(item === undefined ? {} : { item }),
            ...(verdict === undefined ? {} : { verdict }),
            ...(decidedBy === undefined ? {} : { person: decidedBy }),
          },
        }
      : {}),
  }
}

const CODE = /^E0\d\d$/

function errorCodeOption(text: string): string {
  const code = text.toUpperCase()
  if (!CODE.test(code)) throw new InvalidArgumentError('--code takes an error code: E010, E013, …')
  return code
}
