import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bus, encode } from '@passover/bus'
import { chooseModifications, modificationsIn } from '@passover/core'
import { type FileModificationArtifact, HEADER, type PassKey, sha256, type WorkOutput } from '@passover/schemas'
import type { Agent, PassOverOptions } from '@passover/sdk'
import type { AgentWorld } from './agents.js'
import { sequenceOf } from './dispatch.js'
import { until } from './until.js'

/** A change to one file, as a subagent proposes it. */
export function change(
  path: string,
  old_content: string,
  new_content: string,
  rest: Partial<FileModificationArtifact> = {},
): FileModificationArtifact {
  return { type: 'file_modification', path, old_content, new_content, reason: 'because', confidence: 'high', ...rest }
}

/** A project folder with room around it, removed at the end. */
export class Place implements AsyncDisposable {
  private constructor(
    readonly root: string,
    readonly directory: string,
  ) {}

  static async make(): Promise<Place> {
    const root = await mkdtemp(join(tmpdir(), 'apply-'))
    await mkdir(join(root, 'project'))
    return new Place(root, join(root, 'project'))
  }

  in(...names: string[]): string {
    return join(this.directory, ...names)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true })
  }
}

export const keyOf = (output: WorkOutput): PassKey => ({
  originator: output.originating_agent_id,
  subagent: output.subagent_id,
  id: output.work_id,
})

/** A real output with these modifications, and the originator that got it. */
export async function outputWith(
  world: AgentWorld,
  artifacts: FileModificationArtifact[],
  more: Partial<PassOverOptions> = {},
): Promise<{ alice: Agent; output: WorkOutput; key: PassKey }> {
  const alice = await world.agent('alice')
  const fixer = await world.agent('fixer')
  await using _worker = await fixer.onPass(() => ({ artifacts, auto_apply_allowed: true }))
  const output = await alice.passOver({ subagent: 'fixer', reason: 'fix', work_context: { objective: 'fix' }, ...more })
  return { alice, output, key: keyOf(output) }
}

/** A person's decision about the application, bound to the stored return; `only`: what is taken (default all). */
export async function decideApply(
  bus: Bus,
  output: WorkOutput,
  how: { only?: number[]; verdict?: 'approve' | 'deny'; person?: string; digest?: string } = {},
): Promise<void> {
  const key = keyOf(output)
  const { verdict = 'approve', person = 'maria' } = how
  const stored = await until(() => bus.journal.last(bus.subjects.return(key, key.subagent)), { what: 'the return is stored' })
  const digest = how.digest ?? sha256(stored.data)
  const { modifications } = chooseModifications(modificationsIn(output), how.only)
  const headers = { [HEADER.verdict]: verdict, [HEADER.digest]: digest }
  const data = encode({ v: 1, verdict, digest, modifications })
  sequenceOf(await bus.publish({ subject: bus.subjects.decision(key, 'apply', person), headers, data }))
}
