import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { acquireFileLock } from '@passover/bus'
import { TokenFile, TokenFileError } from '@passover/gateway'
import { afterEach, beforeEach, expect, it } from 'vitest'

let folder: string
let path: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'passover-tokens-'))
  path = join(folder, 'tokens.json')
})
afterEach(() => rm(folder, { recursive: true }))

const person = (name: string) => ({ name, kind: 'person', scopes: ['read'] }) as const

/** What a process that is gone has left: this one's number, and another beginning. */
async function deadContender(): Promise<void> {
  const own = await acquireFileLock(
    { folder: { names: async () => [], at: (name) => join(folder, name) }, prefix: 'tokens.json.lock-' },
    'aa',
  )
  if ('held_by' in own) throw new Error('not alone')
  const name = (await readdir(folder)).find((one) => one.includes('.lock-')) ?? ''
  await own[Symbol.asyncDispose]()
  await writeFile(join(folder, name.replace(/lock-(\d+)\.\d+\./, 'lock-$1.1.')), '')
}

it('none of many changes at once is lost, also where a process died in the middle of one', async () => {
  const leaving = await Promise.all(Array.from({ length: 6 }, (_, n) => new TokenFile(path).add(person(`old${n}`))))
  await deadContender()
  await Promise.all([
    ...Array.from({ length: 12 }, (_, n) => new TokenFile(path).add(person(`new${n}`))),
    ...leaving.map(({ shown }) => new TokenFile(path).revoke(shown.id)),
  ])
  const names = (await new TokenFile(path).list()).map(({ name }) => name).sort()
  expect(names).toEqual(Array.from({ length: 12 }, (_, n) => `new${n}`).sort())
  expect(await readdir(folder)).toEqual(['tokens.json'])
})

it('one contender at a time has what is contended for, and a foreign one is waited for', async () => {
  const contending = { folder: { names: () => readdir(folder), at: (name: string) => join(folder, name) }, prefix: 'l-' }
  let holders = 0
  let most = 0
  const take = async (nonce: number) => {
    for (let tries = 0; ; tries++) {
      const lock = await acquireFileLock(contending, `${nonce}x${tries}`)
      if ('held_by' in lock) {
        await new Promise((again) => setTimeout(again, Math.random() * 20))
        continue
      }
      holders += 1
      most = Math.max(most, holders)
      await new Promise((later) => setTimeout(later, 1))
      holders -= 1
      return void (await lock[Symbol.asyncDispose]())
    }
  }
  await Promise.all(Array.from({ length: 12 }, (_, n) => take(n)))
  expect(most).toBe(1)
  await writeFile(join(folder, `l-1.1.ff.${Buffer.from(`not ${hostname()}`).toString('hex')}`), '')
  expect(await acquireFileLock(contending, 'late')).toEqual({ held_by: 1 })
})

// Fails where it is as long in the way as one that changes a directory.
it('who died in a container while changing tokens is in the way for half a minute', async () => {
  const left = join(folder, `tokens.json.lock-1.1.ff.${Buffer.from(`not ${hostname()}`).toString('hex')}`)
  const ago = new Date(Date.now() - 31_000)
  await writeFile(left, '')
  await utimes(left, ago, ago)
  const folderOf = { names: () => readdir(folder), at: (name: string) => join(folder, name) }
  expect(await acquireFileLock({ folder: folderOf, prefix: 'tokens.json.lock-' }, 'other')).toEqual({ held_by: 1 })
  await new TokenFile(path).add(person('maria'))
  expect(await readdir(folder)).toEqual(['tokens.json'])
})

it('says of a file that cannot be used which one and why, and lets nobody in by it', async () => {
  await writeFile(path, '{"v":1,"tokens":[{}]}')
  const spoiled = new TokenFile(path)
  await expect(spoiled.find('pso_00000000_00000000000000000000000000000000')).rejects.toThrow(`${path} is not a token file`)
  await expect(spoiled.add(person('ann'))).rejects.toBeInstanceOf(TokenFileError)
  expect(await readFile(path, 'utf8')).toBe('{"v":1,"tokens":[{}]}')
  const below = new TokenFile(join(path, 'more', 'tokens.json'))
  await expect(below.add(person('ann'))).rejects.toThrow(/cannot be written \(ENOTDIR\)/)
  await expect(new TokenFile(folder).list()).rejects.toThrow(/cannot be read \(EISDIR\)/)
})
