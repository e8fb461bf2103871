import { renameSync, statSync } from 'node:fs'
import { pino } from 'pino'

type Destination = ReturnType<typeof pino.destination>

/** Maximum bytes per file, with three files as for the server's own log. */
const MAX_BYTES = 32 * 1024 * 1024
const ROTATED_FILES = 2

/**
 * Opens a log file that is rotated by size: the full file becomes `<path>.1`, the one before `<path>.2`, and older ones are removed. Needed because
 * agents cause log lines, and their quotas do not count these.
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
      // Logging continues in the current file. Rotation is tried again once `max_bytes` more were written.
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
