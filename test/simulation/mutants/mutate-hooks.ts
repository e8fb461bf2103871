import type { LoadHook } from 'node:module'
import { MUTANTS, type Mutant, VARIANTS } from './mutants.js'

let mutant: Mutant | undefined

export function initialize(name: string): void {
  mutant = MUTANTS[name] ?? VARIANTS[name]
  if (!mutant) throw new Error(`no mutant is called ${name}`)
}

export const load: LoadHook = async (url, context, next) => {
  const loaded = await next(url, context)
  return mutant && url.endsWith(`/${mutant.file}`) ? { ...loaded, source: mutated(String(loaded.source), mutant) } : loaded
}

/** Throws where the text is not there, or more than once: then the mutant means nothing. */
export function mutated(source: string, { file, find, put }: Mutant): string {
  if (source.split(find).length !== 2) throw new Error(`${file} has not just one "${find}"`)
  return source.replace(find, () => put)
}
