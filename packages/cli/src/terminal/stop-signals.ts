export interface StopSignals extends Disposable {
  /** Settles with `stop` at the first Ctrl-C (or SIGTERM, SIGHUP). */
  readonly first: Promise<'stop'>
  /** Aborted at the same time. */
  readonly signal: AbortSignal
}

const NAMES = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** Milliseconds in which a second signal is ignored: npm and npx forward a Ctrl-C that the process also gets directly. */
const DUPLICATE_SIGNAL_MS = 100
const PARENT_CHECK_INTERVAL_MS = 250

/** Handles Ctrl-C: the first one requests an orderly stop, the second one ends the process at once (exit code 130). */
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

/** Calls `stop` when the parent process ends: npm starts commands through a shell that dies of SIGTERM without forwarding it. */
function whenOrphaned(stop: () => void): NodeJS.Timeout | undefined {
  const { npm_command = '', npm_lifecycle_event } = process.env
  // Newer versions of npm use `run` instead of `run-script`.
  if (!['exec', 'run', 'run-script'].includes(npm_command) && npm_lifecycle_event !== 'start') return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop()
  }, PARENT_CHECK_INTERVAL_MS)
  return timer.unref()
}
