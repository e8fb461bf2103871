import { spawn } from 'node:child_process'
import { fstatSync } from 'node:fs'

export interface ReaderClosed extends Disposable {
  /** Settles when nobody reads stdout any more. */
  readonly gone: Promise<'gone'>
}

/**
 * Watches whether stdout is a pipe that nobody reads any more, as after `watch | head`. A process learns that by its next write only, which
 * may never come, and node cannot poll a pipe that it writes to. `tail` of GNU can: it ends by SIGPIPE. Without it, the next write ends the command.
 */
export function watchReader(): ReaderClosed {
  let resolve: (value: 'gone') => void = () => undefined
  const gone = new Promise<'gone'>((settle) => {
    resolve = settle
  })
  if (!isPipe()) return { gone, [Symbol.dispose]() {} }
  const tail = spawn('tail', [`--pid=${process.pid}`, '-f', '/dev/null'], { stdio: ['ignore', 'inherit', 'ignore'] })
  tail.on('error', () => undefined)
  tail.on('exit', (_, signal) => {
    if (signal === 'SIGPIPE') resolve('gone')
  })
  tail.unref()
  return {
    gone,
    [Symbol.dispose]() {
      tail.removeAllListeners('exit')
      tail.kill()
    },
  }
}

function isPipe(): boolean {
  try {
    return fstatSync(1).isFIFO()
  } catch {
    return false
  }
}
