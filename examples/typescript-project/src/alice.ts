// An agent that passes a file over and prints the findings.
import { connect, PassOverError } from '@passover/sdk'

const content = 'export const total = 0\n// TODO: add the prices\n'
const alice = await connect('alice')
try {
  const { artifacts } = await alice.passOver({
    subagent: 'reviewer',
    reason: 'review before merge',
    work_context: { objective: 'Review the file.', files: [{ path: 'basket.ts', content }] },
  })
  for (const one of artifacts)
    if (one.type === 'finding') console.log(`${one.location?.path}:${one.location?.line} ${one.severity}: ${one.message}`)
} catch (error) {
  if (!(error instanceof PassOverError)) throw error
  console.error(`${error.code}: ${error.message}. ${error.suggestedAction}`)
  process.exitCode = 1
} finally {
  await alice[Symbol.asyncDispose]()
}
