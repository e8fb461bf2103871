import { type CgroupParent, cgroupParent } from '../process/cgroup.js'
import { runChild } from '../process/child-process.js'
import { detectMechanism } from './detect.js'
import { type Guarantee, sandboxGuarantees } from './guarantees.js'
import { buildLayout, type Layout, type LayoutOptions } from './layout.js'
import type { Mechanism } from './mechanism.js'
import { findTools, type Tools } from './tools.js'

/** Mechanisms that this machine offers to confine commands, detected once when a worker starts. */
export class Sandbox {
  readonly mechanism: Mechanism
  readonly cgroups: CgroupParent | undefined
  /** True if `setpriv` can end a command together with its worker. */
  readonly tied: boolean
  readonly guarantees: readonly Guarantee[]
  readonly tools: Tools
  readonly #options: LayoutOptions

  private constructor(options: LayoutOptions, mechanism: Mechanism, tied: boolean) {
    this.mechanism = mechanism
    this.tied = tied
    this.cgroups = process.platform === 'linux' ? cgroupParent() : undefined
    this.guarantees = sandboxGuarantees({ mechanism, cgroup: this.cgroups?.version, platform: process.platform })
    this.tools = options.tools
    this.#options = options
  }

  static async detect(given: Omit<LayoutOptions, 'tools'>): Promise<Sandbox> {
    const options = { ...given, tools: findTools(given.env.PATH) }
    const [mechanism, tied] = await Promise.all([detectMechanism(options), canTie(options)])
    return new Sandbox(options, mechanism, tied)
  }

  /** Builds the layout from the current file system, since sockets and git directories appear and disappear. */
  layout(): Layout {
    return buildLayout(this.#options)
  }
}

async function canTie({ directory, env, tools }: LayoutOptions): Promise<boolean> {
  if (process.platform !== 'linux') return false
  const command = [tools.get('setpriv') ?? 'setpriv', '--pdeathsig', 'KILL', '--', 'true']
  const fixed = { input: '', kill_after_ms: 100, max_output_bytes: 1024, gated: false, onStderr: () => undefined }
  return runChild({ ...fixed, command, env, cwd: directory, signal: AbortSignal.timeout(10_000) }).then(
    ({ exit }) => exit === 0,
    () => false,
  )
}
