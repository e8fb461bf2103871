import { setTimeout as pause } from 'node:timers/promises'
import { isAlive } from '@passover/nats-server/process-liveness'

/** Fields of `.passover/server.json` about the command that runs the project's server. */
export interface Told {
  pid?: number
  health?: string
}

interface Looking {
  /** Reads the file anew. */
  read(): Told | undefined
  /** Called once, before the wait for a command that is stopping. */
  onWait(): void
  wait?(ms: number): Promise<unknown>
}

/** Longer than a command takes to drain when it stops. */
const ENDING_MS = 15_000
const LOOK_MS = 200
const ANSWER_MS = 3_000

/** Returns whether the command that runs the server has ended. Waits only for one that is stopping. */
export async function hasEnded(owner: number, { read, onWait, wait = pause }: Looking): Promise<boolean> {
  if (!isAlive(owner, undefined)) return true
  if (!(await isStopping(owner, read()))) return false
  onWait()
  for (let waited = 0; waited < ENDING_MS; waited += LOOK_MS) {
    await wait(LOOK_MS)
    if (!isAlive(owner, undefined)) return true
  }
  return false
}

/** A command that stops closes its health endpoint first, and takes its process out of the file last. */
async function isStopping(owner: number, told: Told | undefined): Promise<boolean> {
  if (told?.pid !== owner) return true
  if (told.health === undefined) return false
  try {
    await fetch(new URL('/livez', told.health), { signal: AbortSignal.timeout(ANSWER_MS) })
    return false
  } catch (error) {
    return error instanceof Error && (error.cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED'
  }
}
