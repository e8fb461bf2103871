// A subagent that reports each line with a TODO as a finding.
import { type ContextFile, drainOnSignals, type FindingArtifact, onPass } from '@passover/sdk'

// The policy can leave out the content of files.
function review({ path, content }: ContextFile): FindingArtifact[] {
  return (content ?? '').split('\n').flatMap((text, at) => {
    if (!text.includes('TODO')) return []
    return [{ type: 'finding', severity: 'warning', category: 'style', message: 'This line says TODO.', location: { path, line: at + 1 } }]
  })
}

const worker = await onPass('reviewer', async (pass) => ({ status: 'completed', artifacts: pass.context.files.flatMap(review) }))
drainOnSignals(worker)
