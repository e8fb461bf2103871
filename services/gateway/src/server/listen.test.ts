import { describe, expect, it } from 'vitest'
import { isLoopbackName } from './listen.js'

describe('a loopback name', () => {
  it('is this machine’s own and nothing that begins so', () => {
    expect(['127.0.0.1', 'localhost', '::1', '[::1]', '127.9.9.9'].every(isLoopbackName)).toBe(true)
    expect(['0.0.0.0', '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1', '::'].some(isLoopbackName)).toBe(false)
  })
})
