import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Blocks of bytes on disk that are read back in reverse order: results of a walk back in time are written going forward. */
export class ReverseSpool implements AsyncDisposable {
  readonly #folder: string
  readonly #file: FileHandle
  readonly #blocks: { at: number; size: number }[] = []
  #size = 0

  private constructor(folder: string, file: FileHandle) {
    this.#folder = folder
    this.#file = file
  }

  static async open(): Promise<ReverseSpool> {
    const folder = await mkdtemp(join(tmpdir(), 'passover-'))
    return new ReverseSpool(folder, await open(join(folder, 'spool'), 'wx+', 0o600))
  }

  async add(block: Uint8Array): Promise<void> {
    if (block.length === 0) return
    await this.#file.write(block, 0, block.length, this.#size)
    this.#blocks.push({ at: this.#size, size: block.length })
    this.#size += block.length
  }

  /** Returns the blocks, starting with the one that was added last. */
  async *backwards(): AsyncGenerator<Buffer> {
    for (const { at, size } of this.#blocks.toReversed()) {
      const block = Buffer.alloc(size)
      await this.#file.read(block, 0, size, at)
      yield block
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close()
    await rm(this.#folder, { recursive: true, force: true })
  }
}
