import { expect, it } from 'vitest'
import { idWindow, viewRules } from './id-window.js'

it('the id window is the stream’s as soon as it is known; before, what the environment says, or an hour', () => {
  const bus: { idWindow: number | undefined } = { idWindow: undefined }
  const rules = viewRules(idWindow(bus, {}), { trust_fences: true })
  const told = idWindow(bus, { environment: 9_000 })
  expect({ ...rules }).toEqual({ id_window_ms: 3_600_000, trust_fences: true })
  expect(told.id_window_ms).toBe(9_000)
  bus.idWindow = 5_000
  expect([rules.id_window_ms, told.id_window_ms]).toEqual([5_000, 5_000])
  expect(idWindow(bus, { given: 7_000, environment: 9_000 }).id_window_ms).toBe(7_000)
})
