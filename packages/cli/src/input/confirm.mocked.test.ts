import { afterEach, expect, it, vi } from 'vitest'
import { DECLINED } from '../errors.js'
import { confirmIfAsked } from './confirm.js'

const answer = vi.hoisted(() => ({ said: false }))
vi.mock(import('@clack/prompts'), () => ({ confirm: async () => answer.said, isCancel: () => false }) as never)

const { setRawMode } = process.stdin
afterEach(() => {
  process.stdin.setRawMode = setRawMode
})

it('ends the command with the exit code of a person who declined, and asks nobody without a terminal', async () => {
  process.stdin.setRawMode = () => process.stdin
  await expect(confirmIfAsked({ interactive: true }, 'Drop 2 dead letters?')).rejects.toMatchObject({ exit: DECLINED })
  answer.said = true
  expect(await confirmIfAsked({ interactive: true }, 'Drop 2 dead letters?')).toBe(true)
  expect(await confirmIfAsked({ interactive: false }, 'Drop 2 dead letters?')).toBe(false)
})
