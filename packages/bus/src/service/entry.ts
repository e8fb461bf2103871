/**
 * @passover/bus/entry: code that runs first in a process. It imports only Node modules, so that it works even if the modules of the process cannot be
 * opened.
 */

/** Number of open files that a process needs to load its modules, of which it opens hundreds at once. */
const ENOUGH = 1_024
/** Exit code for an invalid setting (E030). */
export const MISCONFIGURED = 2
const NO_FILE = new Set(['EMFILE', 'ENFILE'])
/** Node's error codes if it could not open the `package.json` of a package. */
const NO_MODULE = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND', 'ERR_INVALID_PACKAGE_CONFIG'])

const HINT = `raise it to ${ENOUGH} or more in the shell or service manager that starts this process, for example: ulimit -n 4096`

interface Fault {
  message: string
  hint: string
}

interface NodeReport {
  userLimits?: { open_files?: { hard: number | string } }
}

/** Returns the reason and a hint if no more files can be opened, or `undefined` for any other error. */
export function fileLimitFault(error: unknown): Fault | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  if (!NO_FILE.has(error.code) && !NO_MODULE.has(error.code)) return undefined
  if (NO_MODULE.has(error.code) && !tooFewFiles()) return undefined
  return { message: `no more files can be opened: the limit of this process is ${openFiles() ?? 'too low'} (ulimit -n)`, hint: HINT }
}

/** Returns the reason and a hint if the limit of open files is too low to start, or `undefined` if it suffices or is unknown. */
export function tooFewFiles(): Fault | undefined {
  const limit = openFiles()
  if (typeof limit !== 'number' || limit >= ENOUGH) return undefined
  return { message: `the limit of open files of this process is ${limit} (ulimit -n), which is too low`, hint: HINT }
}

/** Returns the limit of open files of this process. Node raises the soft limit to the hard limit at startup. */
function openFiles(): number | string | undefined {
  return (process.report.getReport() as NodeReport).userLimits?.open_files?.hard
}

/** Loads the modules of a process. If the limit of open files is too low, prints one line and exits with code 2. */
export async function loadProcess<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (error) {
    const fault = fileLimitFault(error)
    if (!fault) throw error
    process.stderr.write(`${fault.message}. ${fault.hint}\n`)
    process.exit(MISCONFIGURED)
  }
}
