import { type PolicyFault, type PolicyPlace, REGISTRY } from '@passover/core'
import { count } from '@passover/sdk/internal/format'
import { Failure } from '../errors.js'

/** A fault as it is printed, with the file and the position of each place. */
export interface FileIssue extends PolicyFault {
  file?: string
  /** Line and column of the first place, starting at 1. */
  line?: number
  column?: number
  places: (PolicyPlace & { line?: number; column?: number })[]
}

/** Returns the failure for an invalid policy, with all of its faults. */
export function invalidPolicyError(what: string, faults: FileIssue[]): Failure {
  const errors = faults.filter(({ severity }) => severity === 'error')
  const code = errors.every((fault) => fault.code === 'E031') ? 'E031' : 'E030'
  return new Failure(code, `${what} has ${count(errors.length, 'error')}`, {
    hint: `nothing was changed; ${errors.every(isMissing) ? REGISTER_HINT : 'fix the policy'} and try again`,
    faults: faults.map(jsonFault),
    lines: [
      ...faults.slice(0, MAX_ISSUES_SHOWN).map(faultText),
      ...(faults.length > MAX_ISSUES_SHOWN ? [`  and ${faults.length - MAX_ISSUES_SHOWN} more`] : []),
    ],
  })
}

/** Maximum number of faults that are printed; --json has all of them. */
const MAX_ISSUES_SHOWN = 50

/** Hint for a document that is valid itself: a project's policy is often written before its agents are registered. */
const REGISTER_HINT = 'register the missing agents, or allow them to be missing (--allow-missing),'

/** Returns true if the only fault is that no agent with the name is registered. */
export function isMissing({ places }: Pick<PolicyFault, 'places'>): boolean {
  return places.some(({ path }) => path === REGISTRY)
}

/** Formats a fault for --json, with the position of each place. */
export function jsonFault(fault: FileIssue): Record<string, unknown> {
  const { code, severity, file, line, column, path, found, expected, message, suggestion } = fault
  const places = fault.places.map((place) => ({ path: place.path, level: place.level, line: place.line, column: place.column }))
  return { code, severity, file, line, column, path, found, expected, message, suggestion, places }
}

/** Formats a fault for people: `file:line:column what is wrong`, with the suggestion below it. */
export function faultText({ severity, file, line, column, message, suggestion, places }: FileIssue): string {
  const where = file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}:${column}`}  `
  const also = places
    .slice(1)
    .flatMap((place) => (place.line === undefined ? [] : [`    see also ${file}:${place.line}:${place.column ?? 1}  ${place.path}`]))
  const mend = suggestion ? [`    ${suggestion}`] : []
  return [`  ${severity === 'warning' ? 'warning: ' : ''}${where}${message}`, ...also, ...mend].join('\n')
}
