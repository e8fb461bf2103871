export interface StopSignals extends Disposable {
  /** Settles with `stop` at the first Ctrl-C (or SIGTERM, SIGHUP). */
  readonly first: Promise<'stop'>
  /** Aborted then. */
  readonly signal: AbortSignal
}

const NAMES = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** One Ctrl-C reaches a process twice where npm or npx passes it on as well. */
const DUPLICATE_SIGNAL_MS = 100
const PARENT_CHECK_INTERVAL_MS = 250

/** The first Ctrl-C asks for a stop in good order; the second ends the process at once (exit 130). */
export function stopSignals(onForce: () => void): StopSignals {
  const controller = new AbortController()
  let asked = 0
  let resolveFirst: (value: 'stop') => void = () => {}
  const first = new Promise<'stop'>((resolve) => {
    resolveFirst = resolve
  })
  const onSignal = () => {
    if (asked === 0) {
      asked = performance.now()
      resolveFirst('stop')
      controller.abort()
      return
    }
    if (performance.now() - asked < DUPLICATE_SIGNAL_MS) return
    onForce()
    process.exit(130)
  }
  for (const name of NAMES) process.on(name, onSignal)
  // In a replica of `passover work`, the IPC channel closes when the parent ends, even by SIGKILL.
  if (process.connected) process.on('disconnect', onSignal)
  const orphaned = whenOrphaned(onSignal)
  return {
    first,
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const name of NAMES) process.off(name, onSignal)
      process.off('disconnect', onSignal)
      clearInterval(orphaned)
    },
  }
}

/** npm starts commands through a shell that dies of a SIGTERM without passing it on: its end is then the signal. */
function whenOrphaned(stop: () => void): NodeJS.Timeout | undefined {
  const { npm_command = '', npm_lifecycle_event } = process.env
  // Newer versions of npm say `run` for `run-script`.
  if (!['exec', 'run', 'run-script'].includes(npm_command) && npm_lifecycle_event !== 'start') return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop()
  }, PARENT_CHECK_INTERVAL_MS)
  return timer.unref()
}
