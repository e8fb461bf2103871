import { PolicyStore } from '@passover/bus'
import { invalidPolicyError, sameDocument } from '@passover/operator'
import { connectAs } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import type { ServerSetting } from '../connection/settings.js'
import { findPolicyFile } from '../policy/find-file.js'
import { checkPolicyFile } from '../policy/read-file.js'

/**
 * Runs before `up` accepts requests. If no policy was ever published, publishes the project's file as version 1 in the name of the current person;
 * otherwise returns a line if file and live policy differ. Throws CliFailure if the file is invalid and no policy is in force, because the defaults
 * may allow what the file forbids.
 */
export async function publishInitialPolicy(
  context: Pick<Context, 'directory' | 'env' | 'person'>,
  server: ServerSetting,
): Promise<string | undefined> {
  const file = findPolicyFile(context)
  if (!file) return undefined
  await using bus = await connectAs(context.person, server)
  const store = await PolicyStore.open(bus)
  const live = await store.rollForward()
  const { document, faults } = await checkPolicyFile(file, undefined)
  if (!document) {
    if (!live) throw invalidPolicyError(file.shown, faults)
    return `${file.shown} is not valid, so policy version ${live.version} stays in force. To see the errors: passover policy check`
  }
  if (sameDocument(document, live?.document ?? {})) return undefined
  if (live) {
    return `${file.shown} differs from policy version ${live.version}, which is in force. passover policy diff shows the differences; passover policy push publishes the file; passover policy pull overwrites it with the live policy.`
  }
  const outcome = await store.publish({ document, base: 0, reason: `from ${file.shown}` })
  if (outcome.kind === 'published') return `Policy version 1 is in force, from ${file.shown}.`
  return outcome.kind === 'lost'
    ? undefined
    : `The policy in ${file.shown} was not published: ${outcome.description}. Next: passover policy push`
}
