import { decode, partToken, type StoredMessage } from '@passover/bus'
import { type Fact, HEADER, part } from '@passover/schemas'

/** Only a part stored outside of its message names the owner of a bucket. Other messages rarely contain this word. */
const OWNER = Buffer.from('owner')

/**
 * Returns the large parts, as `<owner>/<token>`, that a message keeps: those of the agent whose bytes it carries. Any agent that knows a hash can
 * name a part of another agent, which does not keep that part. Searches for the word `owner` before decoding, because hardly any message has such
 * parts.
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

/** Returns the owner of the large parts that a message can carry: the originator for a context, the agent that returned it for an output. */
function partsOwner(fact: Fact): string | undefined {
  if (fact.type === 'request') return fact.originator
  if (fact.type !== 'step') return undefined
  if (fact.kind === 'work') return fact.key.originator
  return fact.kind === 'return' ? fact.by : undefined
}

export function partName(owner: string, token: string): string {
  return `${owner}/${token}`
}
