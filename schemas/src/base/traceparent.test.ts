import { describe, expect, it } from 'vitest'
import { formatTraceparent, parseTraceparent, soundTraceparent, traceIdOf } from './traceparent.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const WHOLE = `00-${TRACE}-${SPAN}-01`

describe('traceparent', () => {
  it('tells trace, span and flags', () => {
    expect(parseTraceparent(WHOLE)).toEqual({ trace_id: TRACE, span_id: SPAN, flags: 1 })
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-00`)?.flags).toBe(0)
    expect(traceIdOf(WHOLE)).toBe(TRACE)
    expect(formatTraceparent({ trace_id: TRACE, span_id: SPAN, flags: 1 })).toBe(WHOLE)
  })

  it('is sent on as it came, or as far as it is known', () => {
    expect(soundTraceparent(WHOLE)).toBe(WHOLE)
    expect(soundTraceparent(`cc-${TRACE}-${SPAN}-03-what-comes-next`)).toBe(WHOLE)
    expect(soundTraceparent(undefined)).toBeUndefined()
  })

  it.each([
    ['nothing', ''],
    ['no header at all', 'not a traceparent'],
    ['more than version 00 has', `${WHOLE}-more`],
    ['the version that is none', `ff-${TRACE}-${SPAN}-01`],
    ['capitals', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['a short trace', `00-${TRACE.slice(1)}-${SPAN}-01`],
    ['flags that are no number', `00-${TRACE}-${SPAN}-zz`],
    ['a line more', `${WHOLE}\nPassover-Code: E001`],
    ['too much', `01-${TRACE}-${SPAN}-01-${'x'.repeat(300)}`],
  ])('%s is ignored', (_, text) => {
    expect(parseTraceparent(text)).toBeUndefined()
    expect(soundTraceparent(text)).toBeUndefined()
    expect(traceIdOf(text)).toBeUndefined()
  })
})
