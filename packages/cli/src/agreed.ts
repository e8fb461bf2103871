import { Finished, INTERRUPTED } from './failure.js'
import { printable } from './output/style.js'

/** Every yes or no that is asked at a terminal. Leaving instead of answering ends the command: nobody said no, and nothing is done. */
export async function agreed(message: string, suggested: 'yes' | 'no' = 'no'): Promise<boolean> {
  const { confirm, isCancel } = await import('@clack/prompts')
  const answer = await confirm({ message: printable(message), initialValue: suggested === 'yes' })
  if (isCancel(answer)) throw new Finished(INTERRUPTED)
  return answer
}
