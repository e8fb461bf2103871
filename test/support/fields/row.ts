import type { PolicyFieldName } from '@passover/core'
import type { AgentPairPreference, PassKey, PassOverPreferences, SubagentPreference, WorkOutput } from '@passover/schemas'
import { type Agent, type Handler, PassOverError, type PassOverOptions } from '@passover/sdk'
import { AgentWorld } from '../dispatcher/agents.js'

/** What a policy says of one subagent and of the pair alice → it; `defaults` for all (such a row has a server of its own). */
export interface Said {
  pair?: AgentPairPreference
  subagent?: SubagentPreference
  defaults?: PassOverPreferences['defaults']
}

/**
 * One field of the policy and the difference that it must make: the same passes are made to two subagents, the one's policy says
 * `base`, the other's `base` and `set`; what is seen from outside must be `standard` for the one and `changed` for the other.
 */
export interface Row {
  field: PolicyFieldName
  what: string
  base?: Said
  set: Said
  run: (bench: Bench) => Promise<unknown>
  standard: unknown
  changed: unknown
}

export class Bench {
  constructor(
    readonly all: AgentWorld,
    readonly alice: Agent,
    readonly to: string,
  ) {}

  /** Begins to work as the subagent. */
  async works(handler: Handler): Promise<AsyncDisposable> {
    return (await this.all.agent(this.to)).onPass(handler)
  }

  ask(more: Partial<PassOverOptions> = {}) {
    return this.alice.passOver({ subagent: this.to, reason: 'row', work_context: { objective: 'do it' }, ...more })
  }

  /** What became of a pass that the subagent works on with this handler: a status, or a code. */
  async outcome(handler: Handler, more: Partial<PassOverOptions> = {}): Promise<string> {
    await using _worker = await this.works(handler)
    return await outcomeOf(this.ask(more))
  }

  key(id: string, originator = 'alice'): PassKey {
    return { originator, subagent: this.to, id }
  }
}

export async function outcomeOf(pass: PromiseLike<WorkOutput>): Promise<string> {
  try {
    return (await pass).status
  } catch (error) {
    if (!(error instanceof PassOverError)) throw error
    return error.code
  }
}

export const quick: Handler = () => 'done'

/** Works for so long; told to stop, it gives nothing. */
export function slow(ms: number): Handler {
  return async (pass) => {
    await new Promise<void>((done, stop) => {
      const timer = setTimeout(done, ms)
      pass.signal.addEventListener('abort', () => {
        clearTimeout(timer)
        stop(pass.signal.reason)
      })
    })
    return 'in time'
  }
}

const named = (row: Row, n: number, which: string) => `${row.field.replaceAll('_', '-')}-${n}-${which}`

/** A server with dispatcher and audit whose policy says what all these rows want. */
export class RowWorld implements AsyncDisposable {
  private constructor(
    readonly all: AgentWorld,
    readonly alice: Agent,
    readonly rows: readonly Row[],
  ) {}

  static async start(rows: readonly Row[], defaults?: PassOverPreferences['defaults']): Promise<RowWorld> {
    const document: PassOverPreferences = { ...(defaults && { defaults }), pairs: {}, subagents: {} }
    for (const [n, row] of rows.entries()) {
      const both = { pair: { ...row.base?.pair, ...row.set.pair }, subagent: { ...row.base?.subagent, ...row.set.subagent } }
      for (const [which, said] of [['standard', row.base ?? {}] as const, ['changed', both] as const]) {
        const to = named(row, n, which)
        Object.assign(document.pairs ?? {}, said.pair && { [`alice->${to}`]: said.pair })
        Object.assign(document.subagents ?? {}, said.subagent && { [to]: said.subagent })
      }
    }
    const all = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] })
    return new RowWorld(all, await all.agent('alice'), rows)
  }

  /** What is seen of a row with its field at the default, or set. */
  async see(row: Row, which: 'standard' | 'changed'): Promise<unknown> {
    const to = named(row, this.rows.indexOf(row), which)
    const registered = await this.all.buses.get(await this.all.agent(to))?.ask({}, { service: 'register', timeout_ms: 10_000 })
    if (!(registered as { ok?: boolean } | undefined)?.ok) throw new Error(`${to} was not registered: ${JSON.stringify(registered)}`)
    return row.run(new Bench(this.all, this.alice, to))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.all[Symbol.asyncDispose]()
  }
}
