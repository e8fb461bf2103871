import { execFileSync } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { ArchiveUnreadable, folderArchive, type InMemorySegment, type ManifestEntry, readSegment } from '@passover/archive'
import { verifyArchive } from '@passover/cli'
import { sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { randomOf } from '../../support/attacks/tampered-archive.js'
import { saveSegments } from '../../support/builders/recorded-archive.js'
import { openRecording, recordPass } from '../../support/builders/recording.js'
import { sealAll } from '../../support/builders/seal-all.js'

const RULES = { id_window_ms: 3_600_000 }
const CHAIN = { ...RULES, rules: 'chain only' as const }
/** Of each file of a saved archive, and of the manifest every byte: all of them with TAMPERS=1000. */
const TAMPERS_MADE = Number(process.env.TAMPERS ?? 60)
/** Each reads three files. */
const DEADLINE_MS = 60_000 + TAMPERS_MADE * 200
let folder: string
let segments: InMemorySegment[]
let files: Map<string, Buffer>

/** Three segments with few entries each, so that thousands of looks are quick. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'saved-'))
  const stream = openRecording()
  for (let n = 0; stream.events.length < 8_300; n++) recordPass(stream, n)
  segments = await sealAll(
    stream.events.filter(({ sequence }) => sequence % 4096 < 30),
    'gzip',
  )
  expect(segments).toHaveLength(3)
  await saveSegments(folder, segments, RULES)
  const names = await readdir(folder)
  files = new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))] as const)))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** What is said of the folder while one file is another (undefined: gone). */
async function judged(name: string, bytes: Uint8Array | undefined): Promise<string | undefined> {
  if (bytes) await writeFile(join(folder, name), bytes)
  else await rm(join(folder, name))
  try {
    const { ok, first } = await verifyArchive(folderArchive(folder), CHAIN)
    return ok ? undefined : `${first?.segment} ${first?.what}`
  } catch (error) {
    if (error instanceof ArchiveUnreadable) return error.message
    throw error
  } finally {
    await writeFile(join(folder, name), files.get(name) as Buffer)
  }
}

const manifest = () => (files.get('manifest.jsonl') as Buffer).toString()
const lines = () => manifest().trimEnd().split('\n')
const joined = (of: readonly (string | undefined)[]) => Buffer.from(of.map((line) => `${line}\n`).join(''))

describe('the files of a saved archive', () => {
  it('hold together as they were saved', async () => {
    const { ok, segments: looked } = await verifyArchive(folderArchive(folder), CHAIN)
    expect({ ok, looked }).toEqual({ ok: true, looked: 3 })
  })

  it(
    'a changed byte of the manifest is found, whichever it is',
    async () => {
      const text = manifest()
      const random = randomOf(7)
      const every = TAMPERS_MADE >= 1_000 ? 1 : 17
      const missed: string[] = []
      for (let at = 0; at < text.length; at += every) {
        const other = String.fromCharCode(((text.charCodeAt(at) + 1 + Math.floor(random() * 90)) % 95) + 32)
        if (other === text[at]) continue
        const changed = text.slice(0, at) + other + text.slice(at + 1)
        if ((await judged('manifest.jsonl', Buffer.from(changed))) === undefined) missed.push(`${at} ${changed.slice(at - 20, at + 20)}`)
      }
      expect(missed).toEqual([])
    },
    DEADLINE_MS,
  )

  it('a line of the manifest that is gone, doubled, moved, cut, or says nothing of its index is named by its segment', async () => {
    const [one, two, three] = lines() as [string, string, string]
    const bare = two.replace(/,"index_sha256":"[0-9a-f]{64}"/, '')
    expect(bare).not.toBe(two)
    const renamed = one.replace('index_sha256', 'index_sha255')
    const cases: [Buffer, RegExp][] = [
      [joined([one, three]), /^2 segment 1 is missing before it/],
      [joined([one, one, two, three]), /^0 comes after segment 0/],
      [joined([two, one, three]), /^0 comes after segment 1/],
      [joined([one, two, three.slice(0, -10)]), /line 3 of manifest.jsonl is not a manifest entry/],
      [joined([renamed, two, three]), /line 1 of manifest.jsonl is not a manifest entry/],
      [joined([one, bare, three]), /^1 has no digest of its index/],
      // Neither the chain nor the entries of a segment cover these.
      [joined([one.replace(/,"index_sha256":"[0-9a-f]{64}"/, ''), two, three]), /^0 its entry in manifest.jsonl does not match its digest/],
      [joined([one, two.replace(/"resume":\d+/, '"resume":4000'), three]), /^1 its entry in manifest.jsonl does not match its digest/],
      [joined([one, two.replace(/"resume":\d+/, '"resume":9000'), three]), /^1 has the resume position 9000, which is after its own end/],
      [joined([one, two]), /^undefined manifest.jsonl has 2 entries, but archive.json has 3 digests/],
    ]
    for (const [bytes, what] of cases) expect(await judged('manifest.jsonl', bytes)).toMatch(what)
  })

  it('archive.json that is missing, or says nothing of the manifest, and files of nobody are named', async () => {
    expect(await judged('archive.json', undefined)).toMatch(/archive.json is missing/)
    const { id_window_ms, manifest: digests } = JSON.parse(String(files.get('archive.json')))
    const other = Buffer.from(JSON.stringify({ v: 1, id_window_ms, manifest: [digests[1], ...digests.slice(1)] }))
    expect(await judged('archive.json', other)).toMatch(/^0 its entry in manifest.jsonl does not match its digest in archive.json/)
    await writeFile(join(folder, 'archive.json'), JSON.stringify({ v: 1, id_window_ms }))
    await writeFile(join(folder, `${'a'.repeat(64)}.part`), 'left of another archive')
    await writeFile(join(folder, 'notes.txt'), 'x')
    const { remarked } = await verifyArchive(folderArchive(folder), RULES)
    expect(remarked.filter(({ rule }) => rule === 'archive').map(({ what }) => what)).toEqual([
      expect.stringContaining('archive.json has no digests of the manifest entries'),
      `the file "${'a'.repeat(64)}.part" does not belong to this archive: nothing refers to it`,
      'the file "notes.txt" does not belong to this archive: nothing refers to it',
    ])
    await rm(join(folder, 'notes.txt'))
    await rm(join(folder, `${'a'.repeat(64)}.part`))
    await writeFile(join(folder, 'archive.json'), files.get('archive.json') as Buffer)
  })

  it('a segment that unpacks to far more than its manifest says is not unpacked to its end', async () => {
    const entry = JSON.parse(lines()[0] as string) as ManifestEntry
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
    const said = `its packed bytes are far more than the ${entry.raw_size} bytes that its manifest says`
    expect(await judged(entry.object, bomb)).toMatch(new RegExp(`^0 cannot be read: ${said}$`))
    const sealed = { ...entry, size: bomb.length, sha256: sha256(bomb) }
    await expect(readSegment({ get: async () => bomb } as never, sealed)).rejects.toThrow(said)
  })

  it.each([
    ['a FIFO', (path: string) => execFileSync('mkfifo', [path])],
    ['a link to a device', (path: string) => symlinkSync('/dev/zero', path)],
  ])('%s in place of a file is refused, whichever it is', async (_, put) => {
    for (const [name, bytes] of files) {
      await rm(join(folder, name))
      put(join(folder, name))
      await expect(verifyArchive(folderArchive(folder), CHAIN)).rejects.toThrow(`${name} is not a regular file`)
      await rm(join(folder, name))
      await writeFile(join(folder, name), bytes)
    }
  })

  it(
    'a segment or an index that was changed, cut, exchanged or taken away is named',
    async () => {
      const names = [...files.keys()].filter((name) => !name.startsWith('manifest.') && name !== 'archive.json')
      const missed: string[] = []
      for (let seed = 1; seed <= TAMPERS_MADE; seed++) {
        const random = randomOf(seed)
        const name = names[Math.floor(random() * names.length)] as string
        const bytes = Buffer.from(files.get(name) as Buffer)
        const at = Math.floor(random() * bytes.length)
        const twin = names.find((other) => other !== name && other.endsWith(name.slice(-5)))
        const kind = ['change', 'cut', 'exchange', 'gone'][seed % 4]
        if (kind === 'change') bytes[at] = ((bytes[at] ?? 0) + 1 + Math.floor(random() * 255)) & 255
        const other =
          kind === 'gone' ? undefined : kind === 'cut' ? bytes.subarray(0, at) : kind === 'exchange' ? files.get(twin as string) : bytes
        const said = await judged(name, other)
        if (!said?.startsWith(`${Number.parseInt(name, 10)} `)) missed.push(`${seed} ${kind} ${name}: ${said}`)
      }
      expect(missed).toEqual([])
    },
    DEADLINE_MS,
  )
})
