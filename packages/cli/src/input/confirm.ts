import { closeSync, constants, openSync, readSync } from 'node:fs'
import { ExitError, INTERRUPTED } from '../errors.js'
import { printable } from '../terminal/colors.js'

/**
 * Every yes or no that is asked at a terminal. The suggested answer is always no, and only keys that are pressed once the question is shown
 * answer it. Leaving instead of answering ends the command: nobody said no, and nothing is done.
 */
export async function confirmAction(message: string): Promise<boolean> {
  const { confirm, isCancel } = await import('@clack/prompts')
  discardTypedInput()
  const answer = await confirm({ message: printable(message), initialValue: false })
  if (isCancel(answer)) throw new ExitError(INTERRUPTED)
  return answer
}

/** Discards what was typed before a question is asked. */
function discardTypedInput(): void {
  const { stdin } = process
  while (stdin.readableLength > 0) stdin.read()
  // The terminal gives a line that is not finished only in raw mode. The prompt sets this mode anyway, and ends it.
  stdin.setRawMode(true)
  let terminal: number | undefined
  try {
    terminal = openSync('/dev/tty', constants.O_RDONLY | constants.O_NONBLOCK)
    const some = new Uint8Array(1_024)
    while (readSync(terminal, some) > 0);
  } catch {
    // Nothing is left to read, or the platform has no such file.
  } finally {
    if (terminal !== undefined) closeSync(terminal)
  }
}
