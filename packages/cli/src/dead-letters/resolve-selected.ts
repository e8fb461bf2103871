import type { Bus } from '@passover/bus'
import { allDeadLetters, deadLetterRef, findDeadLetter, type ResolutionResult } from '@passover/operator'
import type { DeadLetter, DeadLetterDetail } from '@passover/schemas'
import type { Context } from '../connection/context.js'
import { CliFailure, usage } from '../errors.js'
import { confirmIfAsked } from '../input/confirm.js'
import { count, formatCommands } from '../terminal/text.js'

export interface LetterSelection {
  ids: string[]
  all?: true
  from?: string
  to?: string
  dryRun?: true
  yes?: true
}

const MAX_LETTERS = 10_000

/** Runs an action on the given dead letters, or on all open ones. More than one needs `--yes` or a confirmation. */
export async function resolveSelected(
  context: Context,
  { bus, selection, verb }: { bus: Bus; selection: LetterSelection; verb: 'requeue' | 'drop' },
  run: (detail: DeadLetterDetail) => Promise<ResolutionResult>,
): Promise<number> {
  const { terminal } = context
  const letters = await selectLetters(bus, selection, verb)
  const what = count(letters.length, 'dead letter')
  if (selection.dryRun) {
    const ids = letters.map(({ id }) => id)
    terminal.show({ dry_run: true, [`would_${verb}`]: ids }, () => [`Would ${verb} ${what}.`, ...ids.map((id) => `  ${id}`)].join('\n'))
    return 0
  }
  if (letters.length > 1 && !selection.yes && !(await confirmIfAsked(terminal, `${verb === 'drop' ? 'Drop' : 'Requeue'} ${what}?`))) {
    throw usage(`this command would ${verb} ${what}`, 'add --dry-run to list them, or --yes to do it')
  }
  const [only] = letters
  if (selection.ids.length === 1 && only) return tell(context, [await run(await findDeadLetter(bus, deadLetterRef(only)))])
  const done: ResolutionResult[] = []
  for (const letter of letters) {
    const one = await attempt(letter, async () => run(await findDeadLetter(bus, deadLetterRef(letter))))
    done.push(one)
  }
  return tell(context, done)
}

async function selectLetters(bus: Bus, { ids, all, from, to }: LetterSelection, verb: string): Promise<DeadLetter[]> {
  if ((ids.length === 0) === (all !== true)) {
    throw usage(
      all ? '--all cannot be combined with ids' : 'name the dead letters: ids, or --all',
      `passover dlq ${verb} --help shows examples`,
    )
  }
  const parties = { ...(from ? { originator: from } : {}), ...(to ? { subagent: to } : {}) }
  if (all) {
    const { letters } = await allDeadLetters(bus, { state: 'open', ...parties }, MAX_LETTERS)
    return letters.filter(({ what, code }) => verb === 'drop' || (what !== 'notice' && code !== 'E005'))
  }
  const found = await Promise.all(ids.map(async (id) => (await findDeadLetter(bus, { id, from, to })).letter))
  return [...new Map(found.map((letter) => [`${letter.originator} ${letter.subagent} ${letter.id}`, letter])).values()]
}

/** Converts a failure to a result, so that it does not stop the remaining letters. */
async function attempt({ id }: DeadLetter, run: () => Promise<ResolutionResult>): Promise<ResolutionResult> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof CliFailure)) throw error
    const { code, message, hint } = error
    const said = { code, message, ...(hint === undefined ? {} : { hint }) }
    return { document: { id, error: said }, sentence: `${message} (${code})`, exit: error.exit ?? 1 }
  }
}

function tell({ terminal }: Context, done: ResolutionResult[]): number {
  if (terminal.mode === 'jsonl') for (const { document } of done) terminal.stream(document, () => undefined)
  else {
    const human = () =>
      done.length === 0 ? 'No open dead letters match.' : done.map(({ sentence }) => formatCommands(sentence)).join('\n')
    terminal.show(
      done.map(({ document }) => document),
      human,
    )
  }
  return done.find(({ exit }) => exit !== 0)?.exit ?? 0
}
