/** What a schema has against a value, as far as it is told. */
interface Issue {
  readonly code?: string | undefined
  readonly path: readonly PropertyKey[]
  readonly message: string
  /** Of a union: what each branch has against it. */
  readonly errors?: readonly (readonly Issue[])[] | undefined
  readonly expected?: string | undefined
}

/**
 * A schema's faults, one text each: the field and what it may be. Of a union, which itself only says that the value is none
 * of its branches, those of the branch that is of the value's kind.
 */
export function issueTexts(issues: readonly Issue[], limit: number, whole = 'output'): string[] {
  return leaves(issues, [])
    .slice(0, limit)
    .map(({ path, message }) => `${path.map(String).join('.') || whole}: ${message}`)
}

function leaves(issues: readonly Issue[], above: readonly PropertyKey[]): Issue[] {
  return issues.flatMap((issue) => {
    const path = [...above, ...issue.path]
    const branches = issue.code === 'invalid_union' ? (issue.errors ?? []) : []
    const kindred = branches.find((branch) => !branch.some((one) => one.path.length === 0 && one.code === 'invalid_type'))
    if (kindred) return leaves(kindred, path)
    const kinds = branches.flatMap((branch) => branch.flatMap(({ expected }) => (expected === undefined ? [] : [expected])))
    return [{ path, message: kinds.length > 0 ? `expected ${kinds.join(' or ')}` : issue.message }]
  })
}
