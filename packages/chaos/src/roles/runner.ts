import type { OwnWorld } from '../cluster/namespace-sandbox.js'
import type { ChaosOptions } from '../options.js'
import { note, run } from '../run/run.js'
import { say, told } from './role.js'

/** The process that runs everything, in a world of its own where that is allowed. */
const { options, ...home } = told<{
  options: ChaosOptions
  world: OwnWorld
  server: { path: string; version: string }
  passover: string
  command: string[]
  say_every_ms: number
}>()
const stop = new AbortController()
process.on('message', (message) => {
  if ((message as { stop?: boolean }).stop) stop.abort()
})
const progress = (text: string) => {
  say('progress', { text })
  void note(options.dir, text)
}
try {
  await deliver('report', { report: await run(options, { ...home, say: progress, stop: stop.signal }) })
} catch (error) {
  await deliver('failed', { why: error instanceof Error ? (error.stack ?? error.message) : String(error) })
}
process.disconnect()

/** A report is large: it has left before the channel is closed. */
function deliver(event: string, fields: object): Promise<void> {
  return new Promise((sent) => process.send?.({ ...fields, event }, undefined, undefined, () => sent()))
}
