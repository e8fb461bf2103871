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

interface NodeReport {
  userLimits?: { open_files?: { hard: number | string } }
}

/** Returns why no more files can be opened and what to do; undefined for any other error. */
export function fileLimitFault(error: unknown): { message: string; hint: string } | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  if (!NO_FILE.has(error.code) && !NO_MODULE.has(error.code)) return undefined
  // Node raises the soft limit to the hard one when it starts.
  const limit = (process.report.getReport() as NodeReport).userLimits?.open_files?.hard
  if (NO_MODULE.has(error.code) && !(typeof limit === 'number' && limit < ENOUGH)) return undefined
  const hint = `raise it to ${ENOUGH} or more in the shell or the service manager that starts this, for example: ulimit -n 4096`
  return { message: `no more files can be opened: this process may have ${limit ?? 'too few'} open at once (ulimit -n)`, hint }
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
