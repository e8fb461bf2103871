import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Keeps the groups that run, as lines "+ pid" and "- pid" name them; when its input ends, because the worker did, however it ended, it kills
 * them all.
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
 * A process beside the worker, so that a command does not outlive a worker that was killed. One for all commands, begun before the first. A
 * command is to wait (`gated`) until its group is told: the worker may be killed in that very moment.
 */
export class ProcessGuardian {
  #child: ChildProcess | undefined
  #isThere: Promise<boolean> | undefined

  /** False: without a shell there is none; the worker's own orderly end kills its commands all the same. */
  begin(): Promise<boolean> {
    this.#isThere ??= this.#begin()
    return this.#isThere
  }

  /** `told`: whatever becomes of the worker now, the group ends with it. */
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
