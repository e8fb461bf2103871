import { confirmAction, ExitError, oneLine, renderReview, visible } from '@passover/cli'
import { showProposals } from '@passover/core/changes'
import type { FileModificationArtifact } from '@passover/schemas'
import type { Stage } from './stage.js'

/** The person's word on one modification. */
export interface Choice {
  modification: FileModificationArtifact
  taken: boolean
}

/** The person left instead of answering. */
export class Left extends Error {}

/** What is taken when nobody is asked: what the auditor is sure of. */
export function defaultChoice({ confidence }: Pick<FileModificationArtifact, 'confidence'>): boolean {
  return confidence !== 'low'
}

/** Shows each modification as a diff and asks about it; answers by itself, and says so, where nobody can be asked. Throws Left. */
export async function choose(stage: Stage, modifications: FileModificationArtifact[]): Promise<Choice[]> {
  const { terminal } = stage
  if (!terminal.interactive) stage.detail('Nobody is asked here: what the auditor is sure of is taken, what has low confidence is not.')
  const choices: Choice[] = []
  for (const [index, modification] of modifications.entries()) {
    stage.line()
    stage.detail(
      `${terminal.colors.bold(`Change ${index + 1} of ${modifications.length}: ${visible(modification.path)}`)}  (confidence ${modification.confidence})`,
    )
    stage.detail(terminal.colors.dim(oneLine(modification.reason)))
    const shown = showProposals([{ number: index + 1, digest: '', modification }])
    stage.detail(renderReview(shown, { colors: terminal.colors, all: [] }))
    const taken = terminal.interactive ? await ask(modification) : defaultChoice(modification)
    if (!terminal.interactive) stage.detail(`Apply it? ${taken ? terminal.colors.green('yes') : terminal.colors.red('no')}`)
    choices.push({ modification, taken })
  }
  return choices
}

async function ask(modification: FileModificationArtifact): Promise<boolean> {
  try {
    return await confirmAction(`Apply this change to ${visible(modification.path)}?`)
  } catch (error) {
    throw error instanceof ExitError ? new Left() : error
  }
}
