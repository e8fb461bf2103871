import { appendRunLog, type RunnerOptions, runOnce } from '../run/run.js'
import { report, roleOptions } from './role.js'

/** Entry point of the process that performs the whole run, in its own namespaces if they are available. */
const { options, ...home } = roleOptions<RunnerOptions>()
const stop = new AbortController()
process.on('message', (message) => {
  if ((message as { stop?: boolean }).stop) stop.abort()
})
const progress = (text: string) => {
  report('progress', { text })
  void appendRunLog(options.dir, text)
}
try {
  await deliver('report', { report: await runOnce(options, { ...home, say: progress, stop: stop.signal }) })
} catch (error) {
  await deliver('failed', { why: error instanceof Error ? (error.stack ?? error.message) : String(error) })
}
process.disconnect()

/** Sends a message and waits until it is sent, since a large report must leave before the channel is closed. */
function deliver(event: string, fields: object): Promise<void> {
  return new Promise((sent) => process.send?.({ ...fields, event }, undefined, undefined, () => sent()))
}
