// Passes three files over as one piece of work.
import { connect } from '@passover/sdk'

const files = [
  { path: 'a.txt', content: 'one two' },
  { path: 'b.txt', content: 'three four five' },
  { path: 'c.txt', content: 'six seven eight nine' },
]
const alice = await connect('alice')
const { output } = await alice.passOver({
  subagent: 'editor',
  reason: 'statistics',
  work_context: { objective: 'Count the words.', files },
})
console.log(output)
await alice[Symbol.asyncDispose]()
