import { InvalidArgumentError } from 'commander'
import { duration, parseDuration } from './duration.js'

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** Parses a whole number within bounds; anything else is E042. */
export function wholeNumber(flag: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`${flag} takes a whole number from ${least} to ${most}.`)
    return value
  }
}

/** Parses `30s`, `500ms`, `2m`; a number alone is refused, since its unit would be a guess. */
export function durationOption(flag: string, most = Number.POSITIVE_INFINITY): (text: string) => number {
  return (text) => {
    const value = parseDuration(text)
    if (value === undefined || value < 1) throw new InvalidArgumentError(`${flag} takes a time with its unit: 500ms, 30s, 5m, 1h.`)
    if (value > most) throw new InvalidArgumentError(`${flag} takes at most ${duration(most)}.`)
    return value
  }
}

/** An agent's or a person's name. */
export function nameOption(text: string): string {
  if (!NAME.test(text) || text === 'passover') {
    throw new InvalidArgumentError('A name has 1 to 64 of A-Z a-z 0-9 _ - and starts with a letter or digit; "passover" is reserved.')
  }
  return text
}

/** Collects a flag that may be given several times. */
export function repeated(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value]
}
