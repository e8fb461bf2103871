import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { activePolicy, sameDocument } from '@passover/operator'
import type { PassOverPreferences } from '@passover/schemas'
import { applyEdits, modify } from 'jsonc-parser'
import type { Context } from '../connection/context.js'
import { CliFailure } from '../errors.js'
import { confirmIfAsked } from '../input/confirm.js'
import { count } from '../terminal/text.js'
import { describeDifference, diffPolicies, withoutImplied } from './diff.js'
import { findPolicyFile, newPolicyFile, type PolicyFile, type PolicyFileOptions } from './find-file.js'
import { readPolicyFile } from './read-file.js'
import { openPolicy, type PolicySession } from './session.js'

export interface PolicyPullOptions {
  dryRun?: true
  yes?: true
}

const FORMAT = { formattingOptions: { insertSpaces: true, tabSize: 2 } }

/** `passover policy pull [file]`: writes the active policy into the file. Keeps comments, order and format of unchanged settings. */
export async function runPolicyPull(context: Context, options: PolicyPullOptions, path: string | undefined): Promise<number> {
  const { terminal } = context
  const file = findPolicyFile({ ...named(context, path), mayBeNew: true })
  await using session = await openPolicy(context)
  const live = await activePolicy(session)
  const target = file?.path ?? newPolicyFile(named(context, path))
  const present = file ? readPolicyFile(file, undefined).document : {}
  if (file && !present && !options.yes) throw unreadable(file)
  const changes = diffPolicies(present ?? {}, live.document)
  const lines = changes.map((one) => `  ${describeDifference(one)}`)
  const told = `${count(changes.length, 'change')}${changes.length === 0 ? '' : ':'}`
  const document = {
    file: target,
    version: live.version,
    changes: changes.map(({ path: at, before, after }) => ({ path: at, before, after })),
  }
  if (file && present && changes.length === 0) {
    terminal.show({ ...document, unchanged: true }, () => `No change: ${file.shown} equals policy version ${live.version}.`)
    return 0
  }
  if (file && present && !options.dryRun) await mayOverwrite(context, { options, session, present, file, changes: changes.length })
  if (!options.dryRun) write(target, file && present ? edited(file, present, live.document) : whole(file, live.document))
  terminal.show({ ...document, dry_run: options.dryRun === true }, () =>
    [
      options.dryRun
        ? `Would write policy version ${live.version} to ${file?.shown ?? target}, ${told}`
        : `${terminal.colors.green('✓')} Wrote policy version ${live.version} to ${file?.shown ?? target}, ${told}`,
      ...lines,
    ].join('\n'),
  )
  return 0
}

function named({ directory, env, terminal }: Context, path: string | undefined): PolicyFileOptions {
  return { directory, env, path, terminal }
}

function unreadable({ shown }: PolicyFile): CliFailure {
  const hint = 'passover policy check shows the errors; --yes overwrites the file'
  return new CliFailure('E030', `${shown} is not valid, so the changes that would be lost cannot be shown`, { hint })
}

interface Overwriting {
  options: PolicyPullOptions
  session: PolicySession
  present: PassOverPreferences
  file: PolicyFile
  changes: number
}

/** Asks before a document is overwritten that was never published and would be lost. */
async function mayOverwrite({ terminal }: Context, { options, session, present, file, changes }: Overwriting): Promise<void> {
  if (options.yes || sameDocument(present, {})) return
  const versions = await session.store.versions()
  if (versions.some(({ document }) => sameDocument(document, present))) return
  const what = `${file.shown} has changes that were never pushed; ${count(changes, 'setting')} would be overwritten`
  if (await confirmIfAsked(terminal, `${what}. Overwrite?`)) return
  throw new CliFailure('E042', what, {
    hint: '--dry-run shows them, --yes overwrites them; passover policy push publishes the file instead',
  })
}

function edited({ text, within }: PolicyFile, present: PassOverPreferences, wanted: PassOverPreferences): string {
  // Applies one setting at a time, because each edit shifts the text after it.
  return diffPolicies(present, wanted).reduce((now, { at, after }) => applyEdits(now, modify(now, [...within, ...at], after, FORMAT)), text)
}

function whole(file: PolicyFile | undefined, document: PassOverPreferences): string {
  if (file && file.within.length > 0) return applyEdits(file.text, modify(file.text, file.within, withoutImplied(document), FORMAT))
  return documentText(document)
}

/** Formats a document as a person would write it. */
export function documentText(document: PassOverPreferences): string {
  return `${JSON.stringify(withoutImplied(document), null, 2)}\n`
}

/** Writes atomically: concurrent readers see the old file or the new one. */
function write(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true })
    const beside = `${path}.${process.pid}.new`
    writeFileSync(beside, text)
    renameSync(beside, path)
  } catch (error) {
    throw new CliFailure('E030', `${path} cannot be written: ${error instanceof Error ? error.message : String(error)}`, {
      hint: 'give another path: passover policy pull <file>',
    })
  }
}
