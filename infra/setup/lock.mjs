import { closeSync, constants, openSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Flag of macOS and the BSDs that opens a file with an exclusive lock. Node has no constant for it. */
const O_EXLOCK = 0x20

/**
 * Takes a lock that the operating system releases when the process ends, however it ends. A file with a process id could be left behind, and two
 * processes that find it stale could both take it. Resolves to a function that releases the lock; undefined: another process of this machine has it.
 */
export function tryLock(name) {
  if (process.platform === 'linux') return listening(`\0${name}`)
  if (process.platform === 'win32') return listening(`\\\\.\\pipe\\${name}`)
  return openedAlone(join(tmpdir(), name))
}

function listening(path) {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', (error) => (error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error)))
    server.listen(path, () => resolve(() => new Promise((released) => server.close(released))))
  })
}

async function openedAlone(path) {
  try {
    const file = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | O_EXLOCK, 0o600)
    return async () => closeSync(file)
  } catch (error) {
    if (error.code === 'EAGAIN' || error.code === 'EWOULDBLOCK') return undefined
    throw error
  }
}
