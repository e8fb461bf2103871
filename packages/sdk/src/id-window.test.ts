import { expect, it } from 'vitest'
import { idWindow, viewRules } from './id-window.js'

it('the id window is the stream’s as soon as it is known, and an hour before', () => {
  const bus: { idWindow: number | undefined } = { idWindow: undefined }
  const rules = viewRules(idWindow(bus, undefined), { trust_fences: true })
  expect({ ...rules }).toEqual({ id_window_ms: 3_600_000, trust_fences: true })
  bus.idWindow = 5_000
  expect(rules.id_window_ms).toBe(5_000)
  expect(idWindow(bus, 7_000).id_window_ms).toBe(7_000)
})
