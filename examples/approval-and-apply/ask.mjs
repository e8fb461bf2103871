// Passes a file over and prints what the subagent proposes.
import { readFile } from 'node:fs/promises'
import { connect } from '@passover/sdk'

const alice = await connect('alice', { directory: import.meta.dirname })
const content = await readFile(`${import.meta.dirname}/basket.js`, 'utf8')
const { work_id, artifacts } = await alice.passOver({
  subagent: 'fixer',
  reason: 'a test fails',
  work_context: { objective: 'Fix the typo.', files: [{ path: 'basket.js', content }] },
})
for (const { path, reason } of artifacts) console.log(`${work_id} proposes to change ${path}: ${reason}`)
await alice[Symbol.asyncDispose]()
