import { closeSync, constants, openSync, readSync } from 'node:fs'
import { DECLINED, ExitError, INTERRUPTED } from '../errors.js'
import { printable } from '../terminal/colors.js'

/**
 * Asks a yes/no question at the terminal. The default is always no, and only keys pressed after the question is shown count. Cancelling the prompt
 * ends the command without doing anything, rather than answering no.
 */
export async function confirmAction(message: string): Promise<boolean> {
  const { confirm, isCancel } = await import('@clack/prompts')
  discardTypedInput()
  const answer = await confirm({ message: printable(message), initialValue: false })
  if (isCancel(answer)) throw new ExitError(INTERRUPTED)
  return answer
}

/**
 * Asks like {@link confirmAction} if there is a terminal. Returns false if there is none.
 *
 * @throws ExitError with exit code `DECLINED` if the person answers no
 */
export async function confirmIfAsked({ interactive }: { interactive: boolean }, message: string): Promise<boolean> {
  if (!interactive) return false
  if (await confirmAction(message)) return true
  throw new ExitError(DECLINED)
}

/** Discards input that was typed before the question is shown. */
function discardTypedInput(): void {
  const { stdin } = process
  while (stdin.readableLength > 0) stdin.read()
  // The terminal delivers an unfinished line only in raw mode. The prompt sets and resets this mode anyway.
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
