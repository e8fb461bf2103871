import { spawn } from 'node:child_process'
import { type Hold, launchOf, type Mode, type Wants } from './confine.js'

const TRY_MS = 10_000

/** What this system lets a worker do to its commands. Everything is tried for real, once, before it is relied on. */
export class Abilities {
  readonly #directory: string
  readonly #env: NodeJS.ProcessEnv
  readonly #holds = new Map<string, Promise<Hold | undefined>>()
  #tied: Promise<boolean> | undefined

  constructor(directory: string, env: NodeJS.ProcessEnv) {
    this.#directory = directory
    this.#env = env
  }

  /** What can be held of what is wanted: all of it, else the files, else the network; undefined: nothing. */
  async hold({ read_only, no_network }: Wants): Promise<Hold | undefined> {
    if (process.platform !== 'linux' || (!read_only && !no_network)) return undefined
    const whole = await this.#tried({ read_only, no_network })
    if (whole || !(read_only && no_network)) return whole
    return (await this.#tried({ read_only, no_network: false })) ?? this.#tried({ read_only: false, no_network })
  }

  /** Whether a command can be made to end with its worker. */
  tied(): Promise<boolean> {
    this.#tied ??= process.platform === 'linux' ? this.#succeeds(['setpriv', '--pdeathsig', 'KILL', '--', 'true']) : Promise.resolve(false)
    return this.#tied
  }

  #tried(wants: Wants): Promise<Hold | undefined> {
    const name = JSON.stringify(wants)
    const known = this.#holds.get(name)
    if (known) return known
    const found = this.#try(wants)
    this.#holds.set(name, found)
    return found
  }

  async #try(wants: Wants): Promise<Hold | undefined> {
    const modes: Mode[] = process.getuid?.() === 0 ? ['root', 'user'] : ['user']
    for (const mode of modes) {
      const hold = { ...wants, mode }
      const command = ['sh', '-c', proofOf(wants), 'passover']
      if (await this.#succeeds(launchOf({ command, directory: this.#directory, hold, tied: false, gated: false }))) return hold
    }
    return undefined
  }

  #succeeds(command: string[]): Promise<boolean> {
    const [program = '', ...args] = command
    return new Promise((resolve) => {
      const child = spawn(program, args, { cwd: this.#directory, env: this.#env, stdio: 'ignore', timeout: TRY_MS, killSignal: 'SIGKILL' })
      child.once('error', () => resolve(false))
      child.once('exit', (code) => resolve(code === 0))
    })
  }
}

/** Succeeds only where the hold holds: nothing can be written here, no network but its own loopback is there. */
function proofOf({ read_only, no_network }: Wants): string {
  const files = read_only ? '! test -w .' : 'true'
  const network = no_network ? 'test "$(grep -c : /proc/net/dev)" -le 1' : 'true'
  return `${files} && ${network}`
}
