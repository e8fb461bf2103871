import { runDispatcher } from '@passover/dispatcher'
import { faultHere, say, tellHealth } from './role.js'

/** A dispatcher as its own main runs it, but that it ends itself at KILL_AT. */
const running = await runDispatcher(process.env, { at: (point) => faultHere(point) })
await say('ready')
void tellHealth(() => running.health())
process.once('SIGTERM', () => void running.drain(5_000).then(() => process.exit(0)))
