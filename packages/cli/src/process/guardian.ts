import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Shell script that reads lines "+ pid" and "- pid" to keep a list of running groups. When its input ends, because the worker ended for any reason,
 * it kills all of them.
 */
const SCRIPT = `trap '' INT TERM HUP
groups=
while read -r what pid; do
  next=
  for group in $groups; do [ "$group" = "$pid" ] || next="$next $group"; done
  [ "$what" = - ] || next="$next $pid"
  groups=$next
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done`

/**
 * A process beside the worker that ensures that no command outlives a killed worker. One process serves all commands and starts before the first.
 * A command must wait (`gated`) until its group is registered, because the worker may be killed at that moment.
 */
export class ProcessGuardian {
  #child: ChildProcess | undefined
  #isThere: Promise<boolean> | undefined

  /** Starts the guardian. Returns false if there is no shell; the worker's orderly shutdown still kills its commands. */
  begin(): Promise<boolean> {
    this.#isThere ??= this.#begin()
    return this.#isThere
  }

  /** Registers a group. After `told`, the group is killed when the worker ends for any reason. */
  guard(group: number): { told: Promise<void> } & Disposable {
    return { told: this.#say(`+ ${group}`), [Symbol.dispose]: () => void this.#say(`- ${group}`) }
  }

  #say(line: string): Promise<void> {
    return new Promise((resolve) => {
      const stdin = this.#child?.stdin
      if (stdin?.writable) stdin.write(`${line}\n`, () => resolve())
      else resolve()
    })
  }

  #begin(): Promise<boolean> {
    if (process.platform === 'win32') return Promise.resolve(false)
    const child = spawn('sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, cwd: '/' })
    this.#child = child
    child.stdin?.on('error', () => undefined)
    child.unref()
    return new Promise((resolve) => {
      child.once('error', () => resolve(false))
      child.once('spawn', () => resolve(true))
    })
  }
}
