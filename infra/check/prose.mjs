import { readFileSync } from 'node:fs'
import { ROOT } from '../setup/prepare.mjs'
import { filesBelow } from './files.mjs'

/**
 * Finds archaic phrases, deprecated terms and American spellings in pages, in titles of decisions, and in comments and texts of the product. The
 * help texts of commands are in docs/reference/cli.md. Prints a line for each, with the replacement, and exits 1 if there are any. Lists only
 * phrases that are wrong in every context: a rule cannot judge the others.
 */

/** Phrases and their replacement. */
const ARCHAIC = {
  anew: 'again, or the verb with re-: "recreate"',
  whoever: 'a noun: "the client that"',
  '(?:at most|after|than|for|within) so (?:many|much|long)|so many (?:a|at a)|so long after': 'a number: "at most n"',
  likewise: 'also',
  'of late': 'recently',
  'to be had|is had': 'available',
  befits: 'the reason',
  'save for': 'except',
  'thereby|thereof|therein|hereby|wherein|whereby|whence|henceforth|heretofore': 'so, of it, in which, from which',
  'gives? back': 'returns',
  'it all the same': 'it anyway',
  'as it stands': 'as it is',
  'is yet to': 'does not … yet',
  'shall|ought': 'must',
  'amongst|whilst|lest': 'among, while, so that',
  'in order to|utili[sz]e\\w*|leverage\\w*': 'to, use',
}

/** Deprecated terms, and the term of docs/concepts/glossary.md or of the field. */
const TERMS = {
  'sub-agents?': 'subagent',
  'dead-?letter(?:ed|ing)? queue': 'dead letters',
  'time-outs?': 'timeout',
  'web[ -]hooks?': 'webhook',
  'meta-data': 'metadata',
  'e-mails?': 'email',
}

/** Repository spelling is British. Identifiers, flags and code in backticks are not checked. */
const SPELLING = {
  '(?<!-)colors?(?![\\w.:({-])': 'colour',
  'behaviors?': 'behaviour',
  'canceled|canceling': 'cancelled, cancelling',
  'synchronized?|organized?|recognized?|serialized?|initialized?': 'the spelling with -ise',
  'favorites?|neighbors?|honors?': 'the spelling with -our',
}

const RULES = [ARCHAIC, TERMS, SPELLING].flatMap((list) =>
  Object.entries(list).map(([pattern, advice]) => ({ pattern: new RegExp(`(?<![\\w.-])(?:${pattern})(?!\\w)`, 'gi'), advice })),
)

/** Pages of which every line is checked, samples of output included, and code of which comments and texts are. Decision records keep the words of their time, but not in titles. */
const PAGE = /^(?:README|CONTRIBUTING|CHANGELOG|SECURITY)\.md$|^docs\/.*\.md$|^(?:packages|services|examples)\/.*\.md$/
const RECORD = /^infra\/decisions\/.*\.md$/
const CODE = /^(?:packages|services|schemas|examples)\/.*(?<!\.test)\.(?:ts|mjs)$/
const COMMENT = /^\s*(?:\/\*\*?|\*|\/\/)(.*)|\s\/\/ (.*)/
/** Text between quotes that has a space, so that it is not an identifier. */
const TEXT = /(['"`])((?:(?!\1)[^\\\n]|\\.)* (?:(?!\1)[^\\\n]|\\.)*)\1/g

let faults = 0
for (const file of filesBelow()) {
  const place = PAGE.test(file) ? 'page' : RECORD.test(file) ? 'record' : CODE.test(file) ? 'code' : undefined
  if (place === undefined) continue
  for (const [index, line] of readFileSync(`${ROOT}/${file}`, 'utf8').split('\n').entries()) {
    if (place === 'record' && !line.startsWith('# ')) continue
    for (const prose of place === 'code' ? proseOf(line) : [line.replaceAll(/`[^`]*`|\]\([^)]*\)|<[^>]+>/g, '')]) {
      for (const { pattern, advice } of RULES) {
        for (const [found] of prose.matchAll(pattern)) {
          faults++
          process.stdout.write(`${file}:${index + 1}: "${found}"; use ${advice}\n`)
        }
      }
    }
  }
}
process.exit(faults > 0 ? 1 : 0)

/** Returns the comment and the texts of a line of code, without code in backticks and placeholders. */
function proseOf(line) {
  const comment = COMMENT.exec(line)
  if (comment) return [(comment[1] ?? comment[2]).replaceAll(/`[^`]*`|\{@[^}]*\}/g, '')]
  return [...line.matchAll(TEXT)].map(([, , text]) => text.replaceAll(/\$\{[^}]*\}|\\`[^`]*`/g, ''))
}
