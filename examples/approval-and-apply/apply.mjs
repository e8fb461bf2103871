// Writes the approved changes of a pass: all of them, or none.
import { connect, PassOverError } from '@passover/sdk'

const [, , id] = process.argv
const alice = await connect('alice', { directory: import.meta.dirname })
try {
  const { applied, conflicts } = await alice.apply(id)
  for (const path of applied) console.log(`wrote ${path}`)
  for (const { path, why } of conflicts) console.log(`did not write ${path}: ${why}`)
} catch (error) {
  if (!(error instanceof PassOverError)) throw error
  console.error(error.code, error.message)
  process.exitCode = 1
}
await alice[Symbol.asyncDispose]()
