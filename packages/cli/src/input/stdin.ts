import { LIMITS } from '@passover/schemas'
import { type CliFailure, usage } from '../errors.js'
import { fileErrorReason } from '../file-error.js'
import { decodeText } from './read-file.js'

/**
 * Reads the text that is piped into a command, without a time limit.
 *
 * @throws CliFailure E042 if it cannot be read, is not UTF-8, or is longer than an objective may be.
 */
export async function readStdin(what: string): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of process.stdin) {
      chunks.push(chunk as Buffer)
      size += (chunk as Buffer).length
      if (size > MAX_BYTES) throw tooMuch(what)
    }
  } catch (error) {
    const why = fileErrorReason(error)
    if (why === undefined) throw error
    throw usage(`${what} cannot be read from stdin: ${why}`)
  }
  const read = decodeText(Buffer.concat(chunks))
  if (read.kind === 'no text') throw usage(`${what} cannot be read from stdin: ${read.why}`, 'include binary content with --file')
  const text = read.text.trim()
  if (text.length > LIMITS.page) throw tooMuch(what)
  return text
}

/** Upper bound in bytes, from 4 bytes per character. White space around the text counts. */
const MAX_BYTES = 4 * LIMITS.page

function tooMuch(what: string): CliFailure {
  return usage(`${what} on stdin has more than ${LIMITS.page} characters`, 'include longer text as a file: --file <path>')
}
