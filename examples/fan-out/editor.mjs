// A subagent that passes each file on, and waits for all results. If one child fails, the pass ends with its error.
import { onPass } from '@passover/sdk'

await onPass('editor', async (pass) => {
  const { files } = pass.context
  const outputs = await Promise.all(
    files.map((file) =>
      pass.passOver({ subagent: 'counter', reason: 'one file of many', work_context: { objective: 'Count the words.', files: [file] } }),
    ),
  )
  const words = outputs.reduce((sum, { output }) => sum + Number(output), 0)
  return `${words} words in ${files.length} files`
})
