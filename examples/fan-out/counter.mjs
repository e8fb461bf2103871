// A subagent that counts the words of the files that it gets.
import { onPass } from '@passover/sdk'

await onPass('counter', async (pass) => {
  const text = pass.context.files.map(({ content }) => content).join(' ')
  return String(text.trim().split(/\s+/).length)
})
