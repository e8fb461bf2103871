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

/** A process beside the worker, so that a command does not outlive a worker that was killed. One for all commands, begun with the first. */
export class Guardian {
  #child: ChildProcess | undefined

  guard(group: number): Disposable {
    this.#child ??= begin()
    this.#say(`+ ${group}`)
    return { [Symbol.dispose]: () => this.#say(`- ${group}`) }
  }

  #say(line: string): void {
    this.#child?.stdin?.write(`${line}\n`)
  }
}

function begin(): ChildProcess | undefined {
  if (process.platform === 'win32') return undefined
  const child = spawn('sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, cwd: '/' })
  // Without a shell there is no guardian; the worker's own orderly end kills its commands all the same.
  child.on('error', () => undefined)
  child.stdin?.on('error', () => undefined)
  child.unref()
  return child
}
