import { renameSync, statSync } from 'node:fs'
import { pino } from 'pino'

type Destination = ReturnType<typeof pino.destination>

/** As the server's own log: three files of this size. */
const MAX_BYTES = 32 * 1024 * 1024
const ROTATED_FILES = 2

/**
 * Opens a log file that never grows far beyond a size: the full one becomes `<path>.1`, the one before `<path>.2`, and older ones are removed.
 * Agents cause lines, and no quota of theirs counts those.
 */
export function rotatedLog(path: string, max_bytes = MAX_BYTES): Destination {
  const destination = pino.destination({ dest: path, mkdir: true, sync: false })
  let size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const rotate = () => {
    if (size < max_bytes) return
    size = 0
    try {
      for (let n = ROTATED_FILES; n > 1; n--) move(`${path}.${n - 1}`, `${path}.${n}`)
      move(path, `${path}.1`)
      destination.reopen()
    } catch {
      // The log goes on in the file that is there, and this is tried again when it has grown by as much.
    }
  }
  destination.on('write', (written: number) => {
    size += written
    rotate()
  })
  destination.once('ready', rotate)
  return destination
}

function move(from: string, to: string): void {
  if (statSync(from, { throwIfNoEntry: false })) renameSync(from, to)
}
