/**
 * @passover/bus/entry: the first lines of a process. It imports nothing but Node, so that it runs where the modules of the process cannot be opened.
 */

/** Enough for a process to load its modules, of which it opens hundreds at once. */
const ENOUGH = 1_024
/** Exit code of a setting that is wrong (E030). */
export const MISCONFIGURED = 2
const NO_FILE = new Set(['EMFILE', 'ENFILE'])
/** What Node says where it could not open the `package.json` of a package. */
const NO_MODULE = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND', 'ERR_INVALID_PACKAGE_CONFIG'])

const HINT = `raise it to ${ENOUGH} or more in the shell or the service manager that starts this, for example: ulimit -n 4096`

interface Fault {
  message: string
  hint: string
}

interface NodeReport {
  userLimits?: { open_files?: { hard: number | string } }
}

/** Returns why no more files can be opened and what to do; undefined for any other error. */
export function fileLimitFault(error: unknown): Fault | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  if (!NO_FILE.has(error.code) && !NO_MODULE.has(error.code)) return undefined
  if (NO_MODULE.has(error.code) && !tooFewFiles()) return undefined
  return { message: `no more files can be opened: this process may have ${openFiles() ?? 'too few'} open at once (ulimit -n)`, hint: HINT }
}

/** Returns why a process that needs many files is better not started; undefined where it may open enough, or the system does not say. */
export function tooFewFiles(): Fault | undefined {
  const limit = openFiles()
  if (typeof limit !== 'number' || limit >= ENOUGH) return undefined
  return { message: `this process may have ${limit} files open at once (ulimit -n), and needs more`, hint: HINT }
}

/** How many files this process may have open at once. Node raises the soft limit to the hard one when it starts. */
function openFiles(): number | string | undefined {
  return (process.report.getReport() as NodeReport).userLimits?.open_files?.hard
}

/** Loads the modules of a process. Where it may not open enough files, it says so in one line and ends the process with 2. */
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
