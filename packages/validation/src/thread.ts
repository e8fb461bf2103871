import { readlinkSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { type Compiled, compileSchema } from './compile.js'
import type { FromThread, ToThread } from './messages.js'

/** Thread that compiles and applies schemas. It holds no state but a cache of compiled schemas, so that it may be killed at any time. */

const KEPT = 64
const compiled = new Map<string, Compiled>()

function compiledOf({ digest, schema }: ToThread): Compiled {
  const known = compiled.get(digest)
  if (known) return known
  const made = compileSchema(JSON.parse(schema))
  const oldest = compiled.keys().next()
  if (compiled.size >= KEPT && !oldest.done) compiled.delete(oldest.value)
  compiled.set(digest, made)
  return made
}

function faultsOf(asked: ToThread): string[] {
  try {
    const made = compiledOf(asked)
    if (!made.ok) return [made.fault]
    return asked.value === undefined ? [] : made.faultsOf(JSON.parse(asked.value))
  } catch (error) {
    return [`the schema cannot be applied: ${error instanceof Error ? error.message : String(error)}`]
  }
}

/** Returns "<pid>/task/<thread>" on Linux. */
function taskOfThis(): string | undefined {
  try {
    return readlinkSync('/proc/thread-self')
  } catch {
    return undefined
  }
}

const say = (message: FromThread): void => parentPort?.postMessage(message)

parentPort?.on('message', (asked: ToThread) => say({ kind: 'checked', id: asked.id, faults: faultsOf(asked) }))
// Warms up the compiler, so that its own startup is not charged to any check.
compileSchema({ type: 'object', properties: { at: { type: 'string', format: 'date-time' } } })
say({ kind: 'ready', task: taskOfThis() })
