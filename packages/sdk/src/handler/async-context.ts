import { AsyncLocalStorage } from 'node:async_hooks'
import type { RetryOptions } from '@passover/core'
import type { WorkOutput } from '@passover/schemas'
import type { ApplyOptions } from '../apply/apply.js'
import type { Applied } from '../apply/apply-selected.js'
import type { PassOverOptions } from '../request/options.js'
import type { EnclosingPass } from '../request/originator.js'
import type { PassHandle } from '../request/pass-handle.js'
import type { Pass } from './pass.js'

/** The operations that code inside a handler can run as its agent. */
export interface HandlerAgent {
  readonly name: string
  passOver(options: PassOverOptions): PassHandle
  passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput>
  apply(output: WorkOutput | string, options?: ApplyOptions): Promise<Applied>
}

/** The pass that the current code works on. */
export interface Scope extends EnclosingPass {
  readonly agent: HandlerAgent
  readonly pass: Pass
}

/** Creates the scope on demand. */
export interface Scoped {
  scope(): Scope
}

const scopes = new AsyncLocalStorage<Scoped>()

/** Runs a handler in an async context in which all code that it calls finds its pass. */
export function inScope<T>(scoped: Scoped, work: () => T): T {
  return scopes.run(scoped, work)
}

export function currentScope(): Scope | undefined {
  return scopes.getStore()?.scope()
}
