import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  activePolicy,
  downgradeMissingAgents,
  type FileIssue,
  faultText,
  invalidPolicyError,
  publish,
  sameDocument,
  validateForPublish,
} from '@passover/operator'
import type { PassOverPreferences } from '@passover/schemas'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { CliFailure, usage } from '../errors.js'
import { decodeText } from '../input/read-file.js'
import { count } from '../terminal/text.js'
import { describeDifference, diffPolicies } from './diff.js'
import { documentText } from './pull.js'
import { noteFileDiffers } from './push.js'
import { checkPolicyFile, readPolicyFile } from './read-file.js'
import { openPolicy, type PolicySession } from './session.js'

export interface EditOptions {
  reason?: string
  allowMissing?: true
}

/** Maximum number of rounds with an invalid document. An editor that never saves a valid one would loop forever. */
const MAX_ROUNDS = 20

/** `passover policy edit`: opens the active policy in an editor, and publishes it if it is valid and was changed. */
export async function runPolicyEdit(context: Context, options: EditOptions): Promise<number> {
  const { terminal } = context
  const editor = context.env.VISUAL || context.env.EDITOR
  if (!editor) throw usage('no editor is configured', 'set VISUAL or EDITOR, or edit the policy file and run passover policy push')
  await using session = await openPolicy(context)
  const live = await activePolicy(session)
  const folder = mkdtempSync(join(tmpdir(), 'passover-policy-'))
  const path = join(folder, 'pass-over.json')
  const head = `// Policy version ${live.version}. Save your changes to publish version ${live.version + 1}; leave the file unchanged to publish nothing.\n`
  writeFileSync(path, head + documentText(live.document), { mode: 0o600 })
  const document = await edited(context, { editor, path, session, before: live.document, allowMissing: options.allowMissing === true })
  if (sameDocument(document, live.document)) {
    rmSync(folder, { recursive: true, force: true })
    terminal.show({ version: live.version, unchanged: true }, () => `Nothing was changed: policy version ${live.version} stays in force.`)
    return 0
  }
  const changes = diffPolicies(live.document, document)
  const { version } = await publish(session, { document, base: live.version, reason: options.reason }, path)
  rmSync(folder, { recursive: true, force: true })
  const names = await readNameVerification(session.bus, context)
  const by = formatPerson(context.person, names)
  terminal.show(
    { version, by: context.person, ...names, changes: changes.map(({ path: at, before, after }) => ({ path: at, before, after })) },
    () =>
      [
        `${terminal.colors.green('✓')} Policy version ${version} is in force, by ${by}, ${count(changes.length, 'change')}:`,
        ...changes.map((one) => `  ${describeDifference(one)}`),
      ].join('\n'),
  )
  await noteFileDiffers(context, session, document)
  return 0
}

interface Editing {
  editor: string
  path: string
  session: PolicySession
  before: PassOverPreferences
  allowMissing: boolean
}

/** Opens the editor until the document is valid. Fails if an invalid document is saved again unchanged. */
async function edited({ terminal, env }: Context, { editor, path, session, before, allowMissing }: Editing): Promise<PassOverPreferences> {
  for (let round = 0, saved = ''; ; round++) {
    openEditor(editor, path, env)
    const decoded = decodeText(readFileSync(path))
    if (decoded.kind === 'no text')
      throw new CliFailure('E030', `the saved file cannot be read: ${decoded.why}`, { hint: 'save it as UTF-8' })
    const { text } = decoded
    const { document, faults } = await problems({ text, path, session, before, allowMissing })
    if (document) return document
    const errors = faults.filter(({ severity }) => severity === 'error')
    const plain = withoutRemarks(text)
    if (plain === saved) throw alreadyReported(invalidPolicyError(path, faults))
    if (round >= MAX_ROUNDS) throw invalidPolicyError(path, faults)
    saved = plain
    for (const fault of errors) terminal.note(faultText(fault))
    writeFileSync(path, remarks(errors) + plain)
  }
}

/** Copies the failure without its list of issues, which were shown when the editor reopened. */
function alreadyReported({ code, message, hint, faults }: CliFailure): CliFailure {
  return new CliFailure(code, message, { ...(hint === undefined ? {} : { hint }), ...(faults ? { faults } : {}) })
}

async function problems({
  text,
  path,
  session,
  before,
  allowMissing,
}: Omit<Editing, 'editor'> & { text: string }): Promise<{ document?: PassOverPreferences; faults: FileIssue[] }> {
  // Conflicts that existed before are not reported here; `validateForPublish` compares with the previous document.
  const read = readPolicyFile({ text, shown: path, within: [] }, undefined)
  if (!read.document) return { faults: downgradeMissingAgents(read.faults, allowMissing) }
  try {
    await validateForPublish(read.document, { what: path, agents: session.agents, before, allowMissing })
    return { document: read.document, faults: [] }
  } catch (error) {
    if (!(error instanceof CliFailure)) throw error
    const { faults } = await checkPolicyFile({ text, shown: path, within: [] }, session.agents)
    return { faults: downgradeMissingAgents(faults, allowMissing) }
  }
}

const REMARK = '// ✗ '

function remarks(faults: FileIssue[]): string {
  return faults
    .flatMap((fault) => faultText({ ...fault, file: undefined } as unknown as FileIssue).split('\n'))
    .map((line) => `${REMARK}${line.trim()}\n`)
    .join('')
}

function withoutRemarks(text: string): string {
  return text
    .split('\n')
    .filter((line) => !line.startsWith(REMARK))
    .join('\n')
}

function openEditor(editor: string, path: string, env: NodeJS.ProcessEnv): void {
  // Uses a shell as git does, because VISUAL may contain arguments.
  const { status, error } = spawnSync(`${editor} "$PASSOVER_EDITED"`, {
    shell: true,
    stdio: 'inherit',
    env: { ...env, PASSOVER_EDITED: path },
  })
  if (status === 0) return
  throw new CliFailure('E042', `the editor failed with ${error ? error.message : `exit code ${status}`}; nothing was published`, {
    hint: `your text is in ${path}`,
    exit: 1,
  })
}
