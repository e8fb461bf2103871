import { canonicalJson, type FileModificationArtifact, sha256, type WorkOutput } from '@passover/schemas'

/** A proposed change of an output, with the number that people use and the digest that decisions use. */
export interface NumberedModification {
  /** 1-based position among the output's file modifications, as in `--only 1,3`. */
  number: number
  /** Name of the change in a decision; unique within the output. */
  digest: string
  modification: FileModificationArtifact
}

export type ModificationChoice = Record<string, 'taken' | 'rejected'>

/** Returns the name of a modification in a decision: the SHA-256 of its RFC 8785 form. */
export function modificationDigest(modification: FileModificationArtifact): string {
  return sha256(canonicalJson(JSON.parse(JSON.stringify(modification))))
}

/**
 * Returns the file modifications of an output, numbered as `show`, `inbox` and `apply` print them. Duplicates get different digests, so that each can
 * be taken or rejected separately.
 */
export function modificationsIn({ artifacts }: Pick<WorkOutput, 'artifacts'>): NumberedModification[] {
  const found: NumberedModification[] = []
  const counts = new Map<string, number>()
  for (const artifact of artifacts) {
    if (artifact.type !== 'file_modification') continue
    const plain = modificationDigest(artifact)
    const count = (counts.get(plain) ?? 0) + 1
    counts.set(plain, count)
    const digest = count === 1 ? plain : sha256(`${plain} ${count}`)
    found.push({ number: found.length + 1, digest, modification: artifact })
  }
  return found
}

/**
 * Returns the modifications of an `apply` decision: the numbers in `only` (all if absent) are taken, the rest rejected. `unknown` lists numbers that
 * do not exist.
 */
export function chooseModifications(
  all: readonly NumberedModification[],
  only?: readonly number[],
): { modifications: ModificationChoice; unknown: number[] } {
  const unknown = (only ?? []).filter((number) => !all.some((one) => one.number === number))
  const modifications: ModificationChoice = {}
  for (const { number, digest } of all) {
    const taken = only === undefined || only.includes(number)
    modifications[digest] = taken ? 'taken' : 'rejected'
  }
  return { modifications, unknown }
}

/** Returns the modifications that a decision takes. A modification that it does not name is rejected. */
export function takenModifications(
  all: readonly NumberedModification[],
  { verdict, modifications }: { verdict: 'approve' | 'deny'; modifications?: ModificationChoice | undefined },
): NumberedModification[] {
  if (verdict === 'deny' || !modifications) return []
  return all.filter(({ digest }) => Object.hasOwn(modifications, digest) && modifications[digest] === 'taken')
}

/**
 * Returns why a modification contradicts itself: one that deletes a file has no new content, and one that creates a file has no old
 * content. Otherwise a diff would show lines that are never written, or remove lines that do not exist.
 */
export function contradictionIn({
  operation,
  old_content,
  new_content,
}: Pick<FileModificationArtifact, 'operation' | 'old_content' | 'new_content'>): string | undefined {
  if (operation === 'delete' && new_content !== '') return 'it deletes the file and has new content'
  if (operation === 'create' && old_content !== '') return 'it creates the file and has old content'
  return undefined
}
