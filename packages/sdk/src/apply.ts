import { encode } from '@passover/bus'
import { modificationDigest, PassOverError } from '@passover/core'
import { type AppliedBody, type FileModificationArtifact, WIRE_VERSION, type WorkOutput } from '@passover/schemas'
import { applyModification } from './apply-file.js'
import type { Deps } from './deps.js'
import { publishPlain } from './publish-request.js'

export interface ApplyOptions {
  /** Which of the output's modifications are taken; the rest is rejected. */
  choose: (modification: FileModificationArtifact, digest: string) => boolean
  /** Nothing is written outside (default: the agent's directory). */
  directory?: string | undefined
  /** Who approved (default: the agent). */
  applied_by?: string | undefined
}

/** What became of an output's modifications, by path. */
export interface Applied {
  applied: string[]
  /** Taken, but the file is not as the subagent saw it, or may not be written. */
  conflicts: { path: string; why: string }[]
  rejected: string[]
}

interface Home {
  deps: Deps
  name: string
  directory: string
}

/**
 * Writes the chosen modifications, each file only where it still equals `old_content`, inside the directory, atomically; then records
 * that as the pass's `applied` event. E013 for another agent's output.
 */
export async function applyModifications(home: Home, output: WorkOutput, options: ApplyOptions): Promise<Applied> {
  const { originating_agent_id: originator, subagent_id: subagent, work_id: id } = output
  if (originator !== home.name) throw new PassOverError('E013', `the output is for ${originator}, not for ${home.name}`)
  const done: Applied = { applied: [], conflicts: [], rejected: [] }
  for (const artifact of output.artifacts) {
    if (artifact.type !== 'file_modification') continue
    if (!options.choose(artifact, modificationDigest(artifact))) {
      done.rejected.push(artifact.path)
      continue
    }
    const result = await applyModification(options.directory ?? home.directory, artifact)
    if (result.ok) done.applied.push(artifact.path)
    else done.conflicts.push({ path: artifact.path, why: result.why })
  }
  const key = { originator, subagent, id }
  const applied_at = home.deps.clock.now()
  const body: AppliedBody = { v: WIRE_VERSION, applied_by: options.applied_by ?? home.name, applied_at, ...done }
  await publishPlain(home.deps, { subject: home.deps.bus.subjects.event(key, 'applied', home.name), data: encode(body) }, key)
  if (done.applied.length > 0) Object.assign(output.metadata, { applied: true, applied_at, applied_by: body.applied_by })
  return done
}
