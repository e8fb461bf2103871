import { AsyncLocalStorage } from 'node:async_hooks'
import type { ParentProof, WorkContext } from '@passover/schemas'
import type { Agent } from './agent.js'
import type { Pass } from './pass.js'

/** The pass that is being worked on by the code that runs now. */
export interface Scope {
  readonly agent: Agent
  readonly pass: Pass
  /** What a child says about its parent. */
  readonly parent: ParentProof
  /** What a child's trace continues. */
  traceparent(): string | undefined
  /** The parent's, for what a child's context leaves out. */
  context(): Pick<WorkContext, 'session_id' | 'directory'>
}

/** Put together only when somebody asks. */
export interface Scoped {
  scope(): Scope
}

const scopes = new AsyncLocalStorage<Scoped>()

/** Runs a handler so that everything it calls, also later and asynchronously, finds its pass. */
export function inScope<T>(scoped: Scoped, work: () => T): T {
  return scopes.run(scoped, work)
}

export function currentScope(): Scope | undefined {
  return scopes.getStore()?.scope()
}
