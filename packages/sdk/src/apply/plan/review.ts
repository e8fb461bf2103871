import { modificationsIn, type NumberedModification } from '@passover/core'
import { type FileEffect, proposedEffect, type ShowOptions, showFiles } from '@passover/core/changes'
import { canonicalJson, fileModificationArtifact, type ShownFile, sha256, type WorkArtifact } from '@passover/schemas'
import type { FileState } from '../files/file-state.js'
import { type Plan, pathsOf, planChanges } from './plan.js'

/** The changes that an approval covers, as shown to a person. */
export interface Review {
  /** Digest of what is shown: the stored return and the changes selected from it. An approval carries it. */
  digest: string
  files: ShownFile[]
}

/** Contents that an approver must accept explicitly, because no diff shows them. */
export interface Accepts {
  /** Content that is not text. */
  binary?: boolean | undefined
  /** Files with too many changes for a diff. */
  whole?: boolean | undefined
}

/** Returns the numbered modifications of an output, or `undefined` if one of them is malformed, because then its effect is unknown. */
export function reviewable(artifacts: readonly unknown[]): NumberedModification[] | undefined {
  const proposed = artifacts.filter((one) => (one as { type?: unknown } | null)?.type === 'file_modification')
  if (!proposed.every((one) => fileModificationArtifact.safeParse(one).success)) return undefined
  return modificationsIn({ artifacts: proposed as WorkArtifact[] })
}

/** Computes the digest that an approval of these changes names. */
export function reviewDigest(return_digest: string, taken: readonly NumberedModification[]): string {
  return sha256(canonicalJson({ return: return_digest, taken: taken.map(({ digest }) => digest) }))
}

/**
 * Plans changes as if every file were as the subagent saw it, for an approver who does not have the files. A conflict in this plan is a contradiction
 * between the changes themselves.
 */
export function planAsSeen(taken: readonly NumberedModification[]): Plan {
  const view = new Map<string, FileState>()
  for (const one of taken) {
    const [path] = pathsOf([one])
    if (path !== undefined && !view.has(path)) view.set(path, stateSeen(one))
  }
  return planChanges(taken, view, { binary: true })
}

function stateSeen(one: NumberedModification): FileState {
  const { before } = proposedEffect(one)
  return before ? { kind: 'file', bytes: before.bytes, mode: undefined } : { kind: 'absent' }
}

/** Shows the combined effect of the selected changes on each file: on the files as planned, or else as the subagent saw them. */
export function showTaken(taken: readonly NumberedModification[], plan: Plan, options?: ShowOptions): ShownFile[] {
  const seen = plan.items.every(({ verdict }) => verdict === 'ready') ? plan : planAsSeen(taken)
  const groups = new Map<string, NumberedModification[]>()
  for (const [index, one] of taken.entries()) {
    const path = plan.items[index]?.path ?? one.modification.path
    groups.set(path, [...(groups.get(path) ?? []), one])
  }
  const effects = [...groups].flatMap(([path, some]): FileEffect[] => {
    const change = effectOn(path, plan) ?? effectOn(path, seen)
    const reasons = some.map(({ modification }) => modification.reason)
    return change
      ? [{ ...change, numbers: some.map(({ number }) => number), reasons }]
      : some.map((one) => ({ ...proposedEffect(one), path }))
  })
  const contradicting = new Set(seen.items.flatMap(({ verdict, path }) => (verdict === 'conflict' ? [path] : [])))
  const never = new Map(
    [...plan.items, ...seen.items].flatMap((item) => (item.verdict === 'refused' ? [[item.path, item.why] as const] : [])),
  )
  return showFiles(effects, options).map((file) => {
    const why = never.get(file.path)
    if (why !== undefined) return inconsistent(file, `this file is never written: ${why}`)
    return contradicting.has(file.path) ? inconsistent(file) : file
  })
}

function effectOn(path: string, { effects }: Plan): Plan['effects'][number] | undefined {
  return effects.find((effect) => effect.path === path)
}

const NOT_TOGETHER = 'the changes of this file do not build on each other, so they cannot be applied together'

function inconsistent(file: ShownFile, message = NOT_TOGETHER): ShownFile {
  return { ...file, warnings: [...file.warnings, { kind: 'inconsistent', message }] }
}

/** Reviews the selected changes of a return from its content alone. */
export function reviewReturn(return_digest: string, taken: readonly NumberedModification[], options?: ShowOptions): Review {
  return { digest: reviewDigest(return_digest, taken), files: showTaken(taken, planAsSeen(taken), options) }
}

/** Returns the reason to refuse an approval: it covers files that no diff shows, and does not accept them explicitly. */
export function notShown(files: readonly ShownFile[], { binary, whole }: Accepts): { why: string; flag: 'binary' | 'whole' } | undefined {
  const find = (omitted: ShownFile['omitted']) => files.filter((file) => file.omitted === omitted).map(({ path }) => path)
  const [large, opaque] = [find('too_many_changes'), find('binary')]
  if (large.length > 0 && !whole) return { why: `too many changed lines for a diff: ${large.join(', ')}`, flag: 'whole' }
  if (opaque.length > 0 && !binary) return { why: `binary content, which cannot be shown: ${opaque.join(', ')}`, flag: 'binary' }
  return undefined
}
