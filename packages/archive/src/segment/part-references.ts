import { decode, partToken, type StoredMessage } from '@passover/bus'
import { type Fact, HEADER, part } from '@passover/schemas'

/** A part that lies apart says whose bucket it is in; nothing else that is stored has a member of that name as a rule. */
const OWNER = Buffer.from('owner')

/**
 * Returns the large parts, as `<owner>/<token>`, that a message keeps: those of the agent whose bytes it carries. Any agent that knows a hash can
 * name a part of another one, which keeps nothing. Looks for the word before it decodes: hardly any message has such parts.
 */
export function ownedParts({ data, headers }: Pick<StoredMessage, 'data' | 'headers'>, fact: Fact): string[] {
  const owner = partsOwner(fact)
  if (owner === undefined) return []
  if (data.length === 0 || !Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(OWNER)) return []
  const decoded = decode(data, headers.get(HEADER.contentType))
  const found = decoded.ok ? (decoded.value as { parts?: unknown } | null)?.parts : undefined
  if (!Array.isArray(found)) return []
  return found.flatMap((one: unknown) => {
    const parsed = part.safeParse(one)
    return parsed.success && parsed.data.owner === owner && !parsed.data.data ? [partName(owner, partToken(parsed.data.hash))] : []
  })
}

/** Whose large parts a message can carry: a context's are in its originator's bucket, an output's in the bucket of the agent that returned it. */
function partsOwner(fact: Fact): string | undefined {
  if (fact.type === 'request') return fact.originator
  if (fact.type !== 'step') return undefined
  if (fact.kind === 'work') return fact.key.originator
  return fact.kind === 'return' ? fact.by : undefined
}

export function partName(owner: string, token: string): string {
  return `${owner}/${token}`
}
