import { expect, it, vi } from 'vitest'
import { hasEnded, type Told } from './owner.js'

/** No process has it: Linux gives numbers up to 2^22. */
const GONE = 2 ** 30
const HERE = process.pid
const HEALTH = 'http://127.0.0.1:1'

/** Asks once; `waits` counts how often it waited. */
async function ask(owner: number, told: Told | undefined, answers = true) {
  vi.stubGlobal('fetch', () =>
    answers
      ? Promise.resolve(new Response('{}', { status: 503 }))
      : Promise.reject(new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })),
  )
  let waits = 0
  const wait = () => Promise.resolve(void waits++)
  const said: string[] = []
  const ended = await hasEnded(owner, { read: () => told, onWait: () => void said.push('waits'), wait })
  return { ended, waits, said }
}

it('answers at once about a command that runs, whatever its health, and about one that has ended', async () => {
  const at_once = { waits: 0, said: [] }
  expect(await ask(HERE, { pid: HERE, health: HEALTH })).toEqual({ ended: false, ...at_once })
  expect(await ask(HERE, { pid: HERE })).toEqual({ ended: false, ...at_once })
  expect(await ask(GONE, { pid: GONE, health: HEALTH }, false)).toEqual({ ended: true, ...at_once })
})

it('says that it waits for a command that is stopping', async () => {
  expect(await ask(HERE, { pid: HERE, health: HEALTH }, false)).toEqual({ ended: false, waits: 75, said: ['waits'] })
  expect(await ask(HERE, {})).toEqual({ ended: false, waits: 75, said: ['waits'] })
})
