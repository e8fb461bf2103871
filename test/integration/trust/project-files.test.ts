import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, PassOverError } from '@passover/sdk'
import { ownFolder, readSealed, readUserConfig, searchProject, userConfigPath, writeServerFile } from '@passover/sdk/internal/project'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

/** Which project files a user believes: each case would name the server that contexts are sent to. */
const ROOT = process.getuid?.() === 0
const STRANGER = 61_235
if (!ROOT) process.stderr.write('Left out: project files of other users (only root can create such).\n')

const SERVER = { url: 'nats://127.0.0.1:4999', user: 'passover', password: 'secret' }

let place: string
beforeEach(() => {
  place = realpathSync(mkdtempSync(join(tmpdir(), 'passover-trust-')))
  vi.stubEnv('XDG_STATE_HOME', join(place, 'state'))
  vi.stubEnv('XDG_CONFIG_HOME', join(place, 'config'))
  vi.stubEnv('NATS_URL', '')
  mkdirSync(join(place, 'repo', '.git'), { recursive: true })
  mkdirSync(join(place, 'repo', 'src', 'deep'), { recursive: true })
})
afterEach(() => rmSync(place, { recursive: true, force: true }))

const repo = (...names: string[]) => join(place, 'repo', ...names)

/** A project as `passover up` leaves it. */
function project(directory = repo()): string {
  const made = ownFolder(directory)
  if (!made.ok) throw new Error(made.fault.why)
  writeServerFile(made.folder, SERVER)
  return made.folder
}

/** A file that another user wrote, with the modes of git. */
function planted(directory: string): string {
  mkdirSync(join(directory, '.passover'), { recursive: true })
  writeFileSync(
    join(directory, '.passover', 'server.json'),
    JSON.stringify({ ...SERVER, url: 'nats://127.0.0.1:6666', seal: 'b'.repeat(64) }),
  )
  return join(directory, '.passover')
}

function found(from: string): string | undefined {
  return searchProject(from).project?.file.url
}

describe('the server file of a project', () => {
  it('is believed in its repository, from any directory below its root', () => {
    const folder = project()
    expect(searchProject(repo('src', 'deep'))).toEqual({
      project: { folder, path: join(folder, 'server.json'), file: SERVER },
      ignored: [],
    })
  })

  it('is looked for up to the root of the repository, without one in the working directory alone, and never at home from below it', () => {
    project(place)
    expect(found(place)).toBe(SERVER.url)
    expect(found(repo('src'))).toBeUndefined()
    rmSync(repo('.git'), { recursive: true })
    expect(found(repo())).toBeUndefined()
    mkdirSync(join(place, '.git'))
    expect(found(repo())).toBe(SERVER.url)
    vi.stubEnv('HOME', place)
    expect(found(repo())).toBeUndefined()
    expect(found(place)).toBe(SERVER.url)
  })

  it.each<[string, string, () => void]>([
    ['came with a clone', 'was not written here by your own', () => void planted(repo())],
    [
      'was changed by a pull',
      'was not written here by your own',
      () => {
        project()
        planted(repo())
      },
    ],
    [
      'was copied from another directory',
      'was not written here by your own',
      () => cpSync(project(join(place, 'other')), repo('.passover'), { recursive: true }),
    ],
    [
      'was written under another key',
      'was not written here by your own',
      () => {
        vi.stubEnv('XDG_STATE_HOME', join(place, 'somebody'))
        project()
        vi.stubEnv('XDG_STATE_HOME', join(place, 'state'))
      },
    ],
    ['others can write', 'other users can write', () => chmodSync(join(project(), 'server.json'), 0o622)],
    ['is in a folder that others can write', 'other users can write', () => chmodSync(project(), 0o770)],
    [
      'is in a project that others can write',
      'other users can write',
      () => {
        project()
        chmodSync(repo(), 0o777)
      },
    ],
    ['is reached over a link', 'symbolic link', () => symlinkSync(project(join(place, 'other')), repo('.passover'))],
  ])('is ignored where it %s', (_, why, arrange) => {
    arrange()
    const { project: one, ignored } = searchProject(repo('src'))
    expect(one).toBeUndefined()
    expect(ignored).toEqual([{ path: repo('.passover', 'server.json'), why: expect.stringContaining(why), hint: expect.any(String) }])
  })

  it.skipIf(!ROOT)('is ignored where another user owns the file, its folder, or the project', () => {
    const folder = project()
    for (const path of [join(folder, 'server.json'), folder, repo()]) {
      chownSync(path, STRANGER, STRANGER)
      expect(searchProject(repo()).ignored).toMatchObject([{ why: `${path} belongs to another user (uid ${STRANGER})` }])
      vi.stubEnv('SUDO_UID', String(STRANGER))
      expect(found(repo())).toBe(SERVER.url)
      vi.stubEnv('SUDO_UID', undefined)
      chownSync(path, 0, 0)
    }
    expect(found(repo())).toBe(SERVER.url)
  })

  it('that is ignored does not hide a trusted one above it', () => {
    project()
    planted(repo('src'))
    expect(searchProject(repo('src', 'deep'))).toMatchObject({
      project: { file: SERVER },
      ignored: [{ path: repo('src', '.passover', 'server.json') }],
    })
  })

  it('is not said to come from somebody else where only the key to check it is out of reach', () => {
    project()
    writeFileSync(join(place, 'file'), '')
    vi.stubEnv('XDG_STATE_HOME', join(place, 'file', 'state'))
    const fault = { why: expect.stringContaining('cannot check whether'), hint: expect.stringMatching(/XDG_STATE_HOME and XDG_CACHE_HOME/) }
    expect(searchProject(repo()).ignored).toMatchObject([fault])
    expect(ownFolder(repo())).toMatchObject({ ok: false, fault })
  })

  it('that is not trusted makes connect() fail, in place of another server', async () => {
    planted(repo())
    const failed: unknown = await connect({ agent: 'alice', directory: repo() }).catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(PassOverError)
    expect(failed).toMatchObject({ code: 'E030', message: expect.stringContaining('was not written here by your own') })
  })
})

describe('the folder of a project', () => {
  it.each(['server.json', 'nats', 'evidence.key', 'gateway-tokens.json'])(
    'is refused where it came with %s of another person, until adopted',
    (name) => {
      planted(repo())
      if (name !== 'server.json') {
        rmSync(repo('.passover', 'server.json'))
        mkdirSync(repo('.passover', name))
      }
      expect(ownFolder(repo())).toMatchObject({ ok: false, fault: { why: expect.stringContaining('was not created here by you') } })
      expect(existsSync(repo('.passover', 'made-here'))).toBe(false)
      expect(ownFolder(repo(), true)).toEqual({ ok: true, folder: repo('.passover') })
      expect(found(repo())).toBe(name === 'server.json' ? 'nats://127.0.0.1:6666' : undefined)
    },
  )

  it('is refused where its files are a FIFO and a device, and nothing is written through a link', () => {
    mkdirSync(repo('.passover'))
    execFileSync('mkfifo', [repo('.passover', 'made-here')])
    symlinkSync('/dev/zero', repo('.passover', 'server.json'))
    expect(ownFolder(repo())).toMatchObject({ ok: false, fault: { why: expect.stringContaining('was not created here by you') } })
    expect(readSealed(repo('.passover'))).toMatchObject({ kind: 'refused', fault: { why: expect.stringContaining('is a symbolic link') } })
    rmSync(repo('.passover', '.gitignore'))
    symlinkSync(join(place, 'elsewhere'), repo('.passover', '.gitignore'))
    expect(() => ownFolder(repo())).toThrow('EEXIST')
    expect(existsSync(join(place, 'elsewhere'))).toBe(false)
  })

  it('that only apply has used becomes a project', () => {
    mkdirSync(repo('.passover', 'apply'), { recursive: true, mode: 0o775 })
    expect(ownFolder(repo())).toEqual({ ok: true, folder: repo('.passover') })
  })
})

describe('the user`s own settings', () => {
  function settings(value: unknown): string {
    mkdirSync(join(place, 'config', 'passover'), { recursive: true })
    writeFileSync(userConfigPath(), JSON.stringify(value), { mode: 0o600 })
    return userConfigPath()
  }

  it('allow automatic apply where they say so', () => {
    expect(readUserConfig().config.auto_apply).toBe(false)
    settings({ auto_apply: [repo()] })
    expect(readUserConfig()).toMatchObject({ config: { auto_apply: [repo()] } })
    settings({ auto_apply: ['repo'] })
    expect(readUserConfig()).toMatchObject({ config: { auto_apply: false }, fault: expect.stringContaining('absolute paths') })
  })

  it('count for nothing where others can write them', () => {
    chmodSync(settings({ auto_apply: true }), 0o666)
    expect(readUserConfig()).toMatchObject({ config: { auto_apply: false }, fault: expect.stringContaining('other users can write') })
  })
})
