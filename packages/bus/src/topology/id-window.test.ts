import { expect, it } from 'vitest'
import { machineTiming } from '../clock/timing.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import { Subjects } from '../subjects/subjects.js'
import type { Config } from './config-diff.js'
import { idWindowIn, idWindowMetadata, keepIdWindow, otherIdWindow } from './id-window.js'

const SUBJECTS = new Subjects()

/** A server whose stream another process writes to after each update. */
function apiOf(after: (config: Config) => Config) {
  let config: Config = {}
  const must = async (call: string, body?: Config) => {
    if (call.startsWith('STREAM.UPDATE')) config = after(body ?? {})
    return { config }
  }
  return { api: { must } as unknown as JetStreamApi, config: () => config }
}

it('is written where the stream says none, and what else is in its metadata stays', async () => {
  const { api, config } = apiOf((body) => body)
  await keepIdWindow(api, SUBJECTS, { found: { metadata: { theirs: 'x' } }, wanted: 5_000, silent: 'write' })
  expect(config().metadata).toEqual({ theirs: 'x', ...idWindowMetadata(5_000) })
})

it.each([
  ['another one is written by another process', (config: Config) => ({ ...config, metadata: idWindowMetadata(7_000) })],
  ['it is lost with an update by another process', (config: Config) => ({ ...config, metadata: {} })],
])('who wrote it does not start where %s at the same time', async (_, after) => {
  const { api } = apiOf(after)
  const kept = keepIdWindow(api, SUBJECTS, { found: {}, wanted: 5_000, silent: 'write' })
  await expect(kept).rejects.toMatchObject({ name: 'TopologyError', hint: expect.stringContaining('PASSOVER_ID_WINDOW_MS') })
})

it('reads only what is a window', () => {
  expect([{}, { metadata: { 'passover.id_window_ms': 'soon' } }, { metadata: { 'passover.id_window_ms': '-1' } }].map(idWindowIn)).toEqual([
    undefined,
    undefined,
    undefined,
  ])
})

function looking() {
  const bus: { idWindow: number | undefined; closed: Promise<undefined>; close: () => void } = {
    idWindow: undefined,
    closed: Promise.resolve(undefined),
    close: () => undefined,
  }
  bus.closed = new Promise((resolve) => (bus.close = () => resolve(undefined)))
  const looks: (() => void)[] = []
  const after = (_: number, fn: () => void) => {
    looks.push(fn)
    return { [Symbol.dispose]: () => undefined }
  }
  return { bus, looks, timing: { ...machineTiming, after } }
}

it('another window than a process began with is seen: written by another, or lost; the default one that is written now is none', async () => {
  const { bus, looks, timing } = looking()
  const found = otherIdWindow(bus, 3_600_000, timing)
  looks.shift()?.()
  bus.idWindow = 3_600_000
  looks.shift()?.()
  expect(looks).toHaveLength(1)
  bus.idWindow = 6 * 3_600_000
  looks.shift()?.()
  expect(await found).toBe(6 * 3_600_000)
  expect(looks).toHaveLength(0)
  bus.idWindow = undefined
  expect(await otherIdWindow(bus, 5_000, timing)).toBe(3_600_000)
})

it('nobody looks any more once the connection is closed', async () => {
  const { bus, looks, timing } = looking()
  void otherIdWindow(bus, 3_600_000, timing)
  bus.close()
  await bus.closed
  await Promise.resolve()
  looks.shift()?.()
  expect(looks).toHaveLength(0)
})
