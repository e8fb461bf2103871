import { Finished } from '../failure.js'

const INTERRUPTED = 130

/** Asks at a terminal whether files may be changed. Leaving instead of answering ends the command. */
export async function agreed(message: string): Promise<boolean> {
  const { confirm, isCancel } = await import('@clack/prompts')
  const answer = await confirm({ message, initialValue: false })
  if (isCancel(answer)) throw new Finished(INTERRUPTED)
  return answer
}
