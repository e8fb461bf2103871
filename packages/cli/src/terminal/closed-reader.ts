import { spawn } from 'node:child_process'
import { fstatSync } from 'node:fs'

export interface ReaderClosed extends Disposable {
  /** Settles when the reader of stdout has closed it. */
  readonly gone: Promise<'gone'>
}

/**
 * Detects that the reader of stdout has closed the pipe, as after `watch | head`. A process notices this only at its next write, which may never
 * come, and Node cannot poll a pipe that it writes to. GNU `tail` can: it ends with SIGPIPE. Without it, the next write ends the command.
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
