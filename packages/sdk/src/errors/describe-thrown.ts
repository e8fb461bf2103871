import { inspect } from 'node:util'
import { cut, cutStart, oneLine } from '@passover/core'
import { withArticle } from '@passover/schemas'

/** Description of a thrown value, as plain data. */
export interface ThrownDescription {
  /** Message of the error and its causes. Never empty. */
  message: string
  name: string
  /** End of the stack. Files are reduced to their names, because it is sent to the originator and the worker's paths are private. */
  stack?: string
  /** Code of the error, such as `ECONNREFUSED` or 429. */
  error_code?: string | number
  /** Causes, outermost first: `cause` and the members of an AggregateError. */
  causes?: ThrownCause[]
}

export interface ThrownCause {
  name: string
  message: string
  error_code?: string | number
}

const MAX_MESSAGE = 8_192
const MAX_CAUSE_TEXT = 500
const MAX_NAME = 200
const MAX_STACK = 2_000
const MAX_STACK_READ = 32_000
const MAX_CAUSES = 10
const CAUSES_IN_MESSAGE = 3
const INSPECT_OPTIONS = {
  depth: 3,
  breakLength: Number.POSITIVE_INFINITY,
  maxArrayLength: 20,
  maxStringLength: 1_000,
  customInspect: false,
} as const

/**
 * Describes any thrown value: errors with throwing getters, Proxies, plain objects, `undefined`. Never throws.
 *
 * It reads only message, name, stack, code and causes of an error. HTTP clients store the request with its credentials in other fields, which
 * serializing the whole error would publish.
 */
export function describeThrown(thrown: unknown): ThrownDescription {
  const causes = causesOf(thrown)
  const name = nameOf(thrown)
  const error_code = codeOf(thrown)
  const stack = stackOf(thrown)
  const described: ThrownDescription = { message: cut(messageWith(thrown, causes), MAX_MESSAGE).toWellFormed(), name }
  if (stack !== undefined) described.stack = cutStart(withoutFolders(cutStart(stack, MAX_STACK_READ)), MAX_STACK).toWellFormed()
  if (error_code !== undefined) described.error_code = error_code
  if (causes.length > 0) described.causes = causes
  return described
}

/** Matches the path in a stack frame: after `at`, or in parentheses. */
const PLACE = /(^[ \t]+at (?:async )?|\()((?:file:\/\/)?(?:\/|[A-Za-z]:[\\/]).*)$/

function withoutFolders(stack: string): string {
  return stack.replace(/^[ \t]+at .*$/gm, (frame) =>
    frame.replace(PLACE, (_, lead: string, place: string) => lead + place.replace(/^.*[\\/]/, '')),
  )
}

/** Returns the stack of an error, or `undefined` if it has none that can be read. */
export function stackOf(thrown: unknown): string | undefined {
  const stack = isObject(thrown) ? read(thrown, 'stack') : undefined
  return typeof stack === 'string' && stack !== '' ? stack : undefined
}

function messageWith(thrown: unknown, causes: ThrownCause[]): string {
  const own = ownMessage(thrown)
  const others = [...new Set(causes.map(({ message }) => message))].filter((message) => message !== '' && !own?.includes(message))
  const shown = others.slice(0, CAUSES_IN_MESSAGE).join('; ')
  const more = others.length > CAUSES_IN_MESSAGE ? ` and ${others.length - CAUSES_IN_MESSAGE} more` : ''
  if (own !== undefined) return shown === '' ? own : `${own} (caused by: ${shown}${more})`
  return shown === '' ? described(thrown) : `${nameOf(thrown)}: ${shown}${more}`
}

/** Returns the message of an error or of any object with one. */
function ownMessage(thrown: unknown): string | undefined {
  if (typeof thrown === 'string') return thrown.trim() === '' ? undefined : thrown
  const message = isObject(thrown) ? read(thrown, 'message') : undefined
  if (typeof message === 'string') return message.trim() === '' ? undefined : message
  return message === undefined || message === null ? undefined : shown(message)
}

/** Describes a thrown value that has no message. */
function described(thrown: unknown): string {
  if (!isObject(thrown)) return `the handler threw ${typeof thrown === 'string' ? 'an empty text' : shown(thrown)}, which is not an error`
  if (isError(thrown)) return `the handler threw ${withArticle(nameOf(thrown))} without a message`
  const status = read(thrown, 'status')
  const kind = className(thrown)
  if (kind === undefined || kind === 'Object' || kind === 'Array') return `the handler threw ${shown(thrown)}, which is not an error`
  return `the handler threw ${withArticle(kind)}${typeof status === 'number' ? ` with status ${status}` : ''}, which is not an error`
}

function shown(value: unknown): string {
  try {
    return oneLine(inspect(value, INSPECT_OPTIONS), 2_000)
  } catch {
    return 'a value that cannot be shown'
  }
}

function nameOf(thrown: unknown): string {
  const name = isObject(thrown) ? read(thrown, 'name') : undefined
  const kind = isObject(thrown) && isError(thrown) ? className(thrown) : undefined
  return cut(typeof name === 'string' && name !== '' ? name : (kind ?? 'Error'), MAX_NAME).toWellFormed()
}

/** Returns the class name of an object, or `undefined` if it cannot be read. */
export function className(value: object): string | undefined {
  const made = read(value, 'constructor')
  const name = typeof made === 'function' ? read(made, 'name') : undefined
  return typeof name === 'string' && name !== '' ? name : undefined
}

function codeOf(thrown: unknown): string | number | undefined {
  const code = isObject(thrown) ? read(thrown, 'code') : undefined
  if (typeof code === 'string') return cut(code, MAX_NAME).toWellFormed()
  return typeof code === 'number' && Number.isFinite(code) ? code : undefined
}

function causesOf(thrown: unknown): ThrownCause[] {
  const causes: ThrownCause[] = []
  const seen = new Set<unknown>([thrown])
  const waiting = directCauses(thrown)
  for (let cause = waiting.shift(); cause !== undefined && causes.length < MAX_CAUSES; cause = waiting.shift()) {
    if (seen.has(cause)) continue
    seen.add(cause)
    const error_code = codeOf(cause)
    const message = cut(ownMessage(cause) ?? (isObject(cause) ? '' : shown(cause)), MAX_CAUSE_TEXT).toWellFormed()
    causes.push({ name: nameOf(cause), message, ...(error_code === undefined ? {} : { error_code }) })
    waiting.push(...directCauses(cause))
  }
  return causes
}

function directCauses(thrown: unknown): unknown[] {
  if (!isObject(thrown)) return []
  const cause = read(thrown, 'cause')
  const errors = read(thrown, 'errors')
  return [...(cause === undefined || cause === null ? [] : [cause]), ...elementsOf(errors)]
}

function elementsOf(list: unknown): unknown[] {
  try {
    return Array.isArray(list) ? list.slice(0, MAX_CAUSES).filter((element) => element !== undefined && element !== null) : []
  } catch {
    return []
  }
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function isError(value: object): boolean {
  try {
    return value instanceof Error
  } catch {
    return false
  }
}

/** Returns a property, or `undefined` if its getter or a Proxy throws. */
function read(value: object, key: string): unknown {
  try {
    return (value as Record<string, unknown>)[key]
  } catch {
    return undefined
  }
}
