/** The file of tokens cannot be used: what the system, or its content, says. Nobody is let in by a file that is spoiled. */
export class TokenFileFailed extends Error {
  override readonly name = 'TokenFileFailed'
  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`the file of tokens ${path} ${why}`)
  }
}
