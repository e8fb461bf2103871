import { randomBytes } from 'node:crypto'
import { openBus } from '@passover/bus'
import { type Clock, modificationsIn } from '@passover/core'
import type { FileModificationArtifact, PassKey } from '@passover/schemas'
import { type ApplyContext, applySelected, undoApplied } from '@passover/sdk/internal'
import { order, say } from './role.js'

/** Applies and undoes as a person. AS_UID: gives up root's rights first; its code is loaded by then, wherever that stands. */

const uid = process.env.AS_UID
if (uid !== undefined) {
  process.setgroups?.([])
  process.setgid?.(Number(uid))
  process.setuid?.(Number(uid))
}
const bus = await openBus({ servers: process.env.NATS_URL ?? '', identity: 'maria', onError: () => undefined })
const clock: Clock = {
  now: () => bus.now(),
  monotonic: () => performance.now(),
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms).unref()
    return { [Symbol.dispose]: () => clearTimeout(timer) }
  },
}

async function obey(told: Record<string, unknown>): Promise<object> {
  const key = told.key as PassKey
  const random = { bytes: (length: number) => randomBytes(length) }
  const context: ApplyContext = { deps: { bus, clock, random }, as: 'person', directory: String(told.directory) }
  if (told.what === 'undo') return undoApplied(context, { id: key.id, undone_by: 'maria' })
  const all = modificationsIn({ artifacts: told.artifacts as FileModificationArtifact[] })
  return applySelected(context, { key, all, taken: all, applied_by: 'maria', binary: false })
}

await say('ready', { uid: process.getuid?.() })
for (;;) {
  const told = await order('obey')
  try {
    await say('obeyed', { done: await obey(told) })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    await say('obeyed', { code, message: String(error) })
  }
}
