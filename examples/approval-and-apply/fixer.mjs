// A subagent that proposes changes. It writes no file itself.
import { onPass } from '@passover/sdk'

await onPass('fixer', async (pass) => ({
  status: 'completed',
  artifacts: pass.context.files.map(({ path, content }) => ({
    type: 'file_modification',
    path,
    old_content: content,
    new_content: content.replaceAll('lenght', 'length'),
    reason: 'typo',
    confidence: 'high',
  })),
}))
