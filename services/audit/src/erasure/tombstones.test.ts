import { expect, it } from 'vitest'
import { retryDelay } from './eraser.js'
import type { SessionPass } from './session-passes.js'
import { sequencesByPass, tombstoneBatches } from './tombstones.js'

const digest = new Uint8Array(32)

function pass(id: string, sequences: number[]): SessionPass {
  const key = { originator: 'alice', subagent: 'audit', id }
  return {
    key,
    frames: sequences.map((sequence) => [sequence, sequence, digest]),
    parts: [],
    settled: 1,
    open: undefined,
    held: [],
    claimed: undefined,
  }
}

// Fails where each tombstone's part of a pass is deleted by itself: its return may then leave the stream before its work.
it('a pass that needs two tombstones is deleted as one, in its order', () => {
  const many = Array.from({ length: 8_001 }, (_, n) => 9_000 - n)
  const stones = [...tombstoneBatches([pass('given-id-1', [3, 1, 2]), pass('given-id-2', many)])]
  expect(stones.map((stone) => stone.map(({ frames }) => frames.length))).toEqual([[3], [8_000], [1]])
  expect(sequencesByPass(stones.flat())).toEqual([[3, 1, 2], many])
})

it('what fails is tried again after a pause that grows to some minutes', () => {
  expect([1, 2, 3, 7, 50].map(retryDelay)).toEqual([5_000, 10_000, 20_000, 300_000, 300_000])
})
