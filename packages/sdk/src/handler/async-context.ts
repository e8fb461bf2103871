import { AsyncLocalStorage } from 'node:async_hooks'
import type { RetryOptions } from '@passover/core'
import type { WorkOutput } from '@passover/schemas'
import type { ApplyOptions } from '../apply/apply.js'
import type { Applied } from '../apply/apply-selected.js'
import type { PassOverOptions } from '../request/options.js'
import type { EnclosingPass } from '../request/originator.js'
import type { PassHandle } from '../request/pass-handle.js'
import type { Pass } from './pass.js'

/** What code within a handler does as its agent. */
export interface HandlerAgent {
  readonly name: string
  passOver(options: PassOverOptions): PassHandle
  passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput>
  apply(output: WorkOutput | string, options?: ApplyOptions): Promise<Applied>
}

/** The pass that is being worked on by the code that runs now. */
export interface Scope extends EnclosingPass {
  readonly agent: HandlerAgent
  readonly pass: Pass
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
